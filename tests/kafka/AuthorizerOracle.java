import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.internals.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks Apache Kafka's StandardAuthorizer. A line of the input is a world, a rule or a question, its
 * parts apart by tabs; each question is answered by a line.
 */
public final class AuthorizerOracle {
    private StandardAuthorizer authorizer;
    private Map<Uuid, StandardAcl> rules = new HashMap<>();
    private boolean isLoaded;

    public static void main(String[] arguments) throws Exception {
        AuthorizerOracle oracle = new AuthorizerOracle();
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer = oracle.take(line.split("\t", -1));
            if (answer != null) {
                out.append(answer).append('\n');
            }
        }
        System.out.print(out);
    }

    private String take(String[] parts) throws Exception {
        switch (parts[0]) {
            case "world":
                authorizer = new StandardAuthorizer();
                Map<String, Object> settings = new HashMap<>();
                settings.put(StandardAuthorizer.SUPER_USERS_CONFIG, parts[1]);
                settings.put(
                    StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, parts[2]);
                settings.put("node.id", "1");
                authorizer.configure(settings);
                authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                rules = new HashMap<>();
                isLoaded = false;
                return null;
            case "rule":
                rules.put(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromCode(Byte.parseByte(parts[1])),
                    parts[3],
                    PatternType.fromCode(Byte.parseByte(parts[2])),
                    parts[4],
                    parts[5],
                    AclOperation.fromCode(Byte.parseByte(parts[6])),
                    AclPermissionType.fromCode(Byte.parseByte(parts[7]))));
                return null;
            case "may":
                load();
                Action action = new Action(
                    AclOperation.fromCode(Byte.parseByte(parts[3])),
                    new ResourcePattern(
                        ResourceType.fromCode(Byte.parseByte(parts[4])),
                        parts[5],
                        PatternType.LITERAL),
                    1, false, false);
                return said(authorizer.authorize(client(parts), List.of(action)).get(0));
            case "any":
                load();
                return said(authorizer.authorizeByResourceType(
                    client(parts),
                    AclOperation.fromCode(Byte.parseByte(parts[3])),
                    ResourceType.fromCode(Byte.parseByte(parts[4]))));
            case "list":
                load();
                return list(parts);
            default:
                throw new IllegalArgumentException(parts[0]);
        }
    }

    private void load() {
        if (!isLoaded) {
            authorizer.loadSnapshot(rules);
            authorizer.completeInitialLoad();
            isLoaded = true;
        }
    }

    private String list(String[] parts) {
        AclBindingFilter filter = new AclBindingFilter(
            new ResourcePatternFilter(
                ResourceType.fromCode(Byte.parseByte(parts[1])),
                orNull(parts[3]),
                PatternType.fromCode(Byte.parseByte(parts[2]))),
            new AccessControlEntryFilter(
                orNull(parts[4]),
                orNull(parts[5]),
                AclOperation.fromCode(Byte.parseByte(parts[6])),
                AclPermissionType.fromCode(Byte.parseByte(parts[7]))));
        TreeSet<String> found = new TreeSet<>();
        for (AclBinding each : authorizer.acls(filter)) {
            List<String> words = new ArrayList<>();
            words.add(Byte.toString(each.pattern().resourceType().code()));
            words.add(Byte.toString(each.pattern().patternType().code()));
            words.add(each.pattern().name());
            words.add(each.entry().principal());
            words.add(each.entry().host());
            words.add(Byte.toString(each.entry().operation().code()));
            words.add(Byte.toString(each.entry().permissionType().code()));
            found.add(String.join(",", words));
        }
        return String.join(";", found);
    }

    private static String orNull(String text) {
        return text.isEmpty() ? null : text;
    }

    private static String said(AuthorizationResult result) {
        return result == AuthorizationResult.ALLOWED ? "yes" : "no";
    }

    private static AuthorizableRequestContext client(String[] parts) throws Exception {
        KafkaPrincipal principal = SecurityUtils.parseKafkaPrincipal(parts[1]);
        InetAddress address = InetAddress.getByName(parts[2]);
        return new AuthorizableRequestContext() {
            @Override
            public String listenerName() {
                return "PLAINTEXT";
            }

            @Override
            public SecurityProtocol securityProtocol() {
                return SecurityProtocol.PLAINTEXT;
            }

            @Override
            public KafkaPrincipal principal() {
                return principal;
            }

            @Override
            public InetAddress clientAddress() {
                return address;
            }

            @Override
            public int requestType() {
                return 0;
            }

            @Override
            public int requestVersion() {
                return 0;
            }

            @Override
            public String clientId() {
                return "oracle";
            }

            @Override
            public int correlationId() {
                return 0;
            }
        };
    }
}
