package org.apache.kafka.common.test.junit;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.opentest4j.TestAbortedException;

/**
 * Stands before the class of this name in Kafka's test framework: where that one starts Apache
 * Kafka inside of the JVM, this one starts our broker as a process and gives the test its address.
 *
 * <p>A test that wants several brokers gets one, with one replica of everything that is not said by
 * the test itself. One that wants a secured listener is aborted. One that looks inside of the
 * broker's objects fails and names what it asked for.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String name;
    private final ClusterConfig config;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean isCombined) {
        this.name = name;
        this.config = config;
    }

    @Override
    public String getDisplayName(int index) {
        return name + " [" + index + "] " + String.join(",", config.displayTags());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        OneBroker broker = new OneBroker(config);
        return List.of(
            (BeforeEachCallback) context -> {
                broker.checkItCanBe();
                if (config.isAutoStart()) {
                    broker.start();
                }
            },
            (AfterTestExecutionCallback) context -> broker.stop(),
            new ClusterInstanceParameterResolver(broker));
    }

    /** The broker of one test: a process, and its folder. */
    private static final class OneBroker implements ClusterInstance {
        private static final int ID = 1;
        private static final Set<String> OF_SEVERAL_BROKERS = Set.of(
            "default.replication.factor",
            "min.insync.replicas",
            "offsets.topic.replication.factor",
            "transaction.state.log.min.isr",
            "transaction.state.log.replication.factor");
        private static final Duration PATIENCE = Duration.ofSeconds(60);
        private static final Pattern ADDRESS = Pattern.compile("listening listener=EXTERNAL address=\\S*:(\\d+)");
        private static final Pattern READY = Pattern.compile("(^|\\s)ready(\\s|$)", Pattern.MULTILINE);

        private final ClusterConfig config;
        private Path folder;
        private Process process;
        private int port;

        OneBroker(ClusterConfig config) {
            this.config = config;
        }

        void checkItCanBe() {
            if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT) {
                throw new TestAbortedException("wants " + config.brokerSecurityProtocol());
            }
        }

        @Override
        public void start() {
            try {
                if (folder == null) {
                    folder = Files.createTempDirectory("siltstone-");
                }
                launch();
                chooseFeatures();
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        private void launch() throws IOException {
            Path log = folder.resolve("log.txt");
            process = new ProcessBuilder(command())
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.to(log.toFile()))
                .start();
            Instant end = Instant.now().plus(PATIENCE);
            while (true) {
                String said = Files.readString(log);
                Matcher address = ADDRESS.matcher(said);
                if (READY.matcher(said).find() && address.find()) {
                    port = Integer.parseInt(address.group(1));
                    return;
                }
                if (!process.isAlive() || Instant.now().isAfter(end)) {
                    throw new IllegalStateException("the broker did not start:\n" + said);
                }
                sleep();
            }
        }

        private void chooseFeatures() {
            Map<String, FeatureUpdate> updates = new HashMap<>();
            config.features().forEach((feature, level) -> updates.put(
                feature.featureName(),
                new FeatureUpdate(level, FeatureUpdate.UpgradeType.UNSAFE_DOWNGRADE)));
            if (updates.isEmpty()) {
                return;
            }
            try (Admin admin = admin()) {
                admin.updateFeatures(updates, new UpdateFeaturesOptions()).all().get();
            } catch (InterruptedException | ExecutionException error) {
                throw new IllegalStateException(error);
            }
        }

        private List<String> command() {
            Map<String, String> settings = new HashMap<>(config.serverProperties());
            settings.putAll(config.perServerOverrideProperties().getOrDefault(0, Map.of()));
            List<String> directories = new ArrayList<>();
            for (int disk = 0; disk < config.numDisksPerBroker(); disk++) {
                directories.add(folder.resolve("data-" + disk).toString());
            }
            settings.replaceAll((key, value) -> OF_SEVERAL_BROKERS.contains(key) ? "1" : value);
            settings.put("log.dirs", String.join(",", directories));
            settings.put("listeners", "EXTERNAL://localhost:" + port);
            settings.put("listener.security.protocol.map", "EXTERNAL:PLAINTEXT");
            settings.put("http.listener", "127.0.0.1:0");
            settings.put("node.id", String.valueOf(ID));
            List<String> command = new ArrayList<>(List.of(System.getProperty("siltstone"), "serve"));
            settings.forEach((key, value) -> command.addAll(List.of("--set", key + "=" + value)));
            return command;
        }

        @Override
        public void stop() {
            halt();
            if (folder != null) {
                delete(folder.toFile());
                folder = null;
            }
        }

        private void halt() {
            if (process == null) {
                return;
            }
            process.destroy();
            try {
                if (!process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
                    process.destroyForcibly().waitFor();
                }
            } catch (InterruptedException error) {
                process.destroyForcibly();
                Thread.currentThread().interrupt();
            }
            process = null;
        }

        private static void delete(File file) {
            File[] inside = file.listFiles();
            if (inside != null) {
                for (File each : inside) {
                    delete(each);
                }
            }
            file.delete();
        }

        private static void sleep() {
            try {
                Thread.sleep(20);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException(error);
            }
        }

        @Override
        public boolean started() {
            return process != null;
        }

        @Override
        public boolean stopped() {
            return process == null;
        }

        @Override
        public void shutdownBroker(int id) {
            halt();
        }

        @Override
        public void startBroker(int id) {
            start();
        }

        @Override
        public Type type() {
            return Type.CO_KRAFT;
        }

        @Override
        public ClusterConfig config() {
            return config;
        }

        @Override
        public Map<Integer, KafkaBroker> brokers() {
            return Map.of(ID, outside());
        }

        @Override
        public Map<Integer, KafkaBroker> aliveBrokers() {
            return process == null ? Map.of() : brokers();
        }

        @Override
        public Map<Integer, ControllerServer> controllers() {
            return Map.of();
        }

        @Override
        public Set<Integer> controllerIds() {
            return Set.of(ID);
        }

        @Override
        public Set<Integer> brokerIds() {
            return Set.of(ID);
        }

        @Override
        public List<Integer> brokerBoundPorts() {
            return List.of(port);
        }

        @Override
        public List<Integer> controllerBoundPorts() {
            return List.of(port);
        }

        @Override
        public ListenerName clientListener() {
            return ListenerName.normalised("EXTERNAL");
        }

        @Override
        public ListenerName controllerListenerName() {
            return ListenerName.normalised("CONTROLLER");
        }

        @Override
        public String bootstrapServers() {
            return "localhost:" + port;
        }

        @Override
        public String bootstrapControllers() {
            return bootstrapServers();
        }

        @Override
        public String clusterId() {
            try (Admin admin = admin()) {
                return admin.describeCluster().clusterId().get();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public Optional<FaultHandlerException> firstFatalException() {
            return Optional.empty();
        }

        @Override
        public Optional<FaultHandlerException> firstNonFatalException() {
            return Optional.empty();
        }

        @Override
        public void waitForReadyBrokers() {
            // It is ready when `start` returns.
        }

        @Override
        public void ensureConsistentMetadata() {
            // One node has one view.
        }

        @Override
        public void createTopic(String topic, int partitions, short replicas, Map<String, String> configs)
                throws InterruptedException {
            ClusterInstance.super.createTopic(topic, partitions, (short) 1, configs);
        }

        @Override
        public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
            RaftClusterInvocationContext.waitForCondition(() -> partitionsOf(topic) == partitions, topic + " is not there");
        }

        @Override
        public void waitTopicDeletion(String topic) throws InterruptedException {
            RaftClusterInvocationContext.waitForCondition(() -> partitionsOf(topic) == 0, topic + " is still there");
        }

        private int partitionsOf(String topic) {
            try (Admin admin = admin()) {
                return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            } catch (Exception error) {
                return 0;
            }
        }

        private Optional<LeaderAndIsr> leaderOf(String topic, int partition) {
            boolean isThere = partition < partitionsOf(topic);
            return isThere ? Optional.of(new LeaderAndIsr(ID, List.of(ID))) : Optional.empty();
        }

        /** The few things of Kafka's own broker that can be had from outside. */
        private KafkaBroker outside() {
            return answering(KafkaBroker.class, (method, arguments) -> switch (method.getName()) {
                case "shutdown" -> {
                    halt();
                    yield null;
                }
                case "awaitShutdown" -> null;
                case "startup" -> {
                    start();
                    yield null;
                }
                case "isShutdown" -> process == null;
                case "boundPort" -> port;
                case "config" -> kafkaConfig();
                case "clusterId" -> clusterId();
                case "groupCoordinator" -> answering(GroupCoordinator.class, (of, with) -> switch (of.getName()) {
                    case "groupMetadataTopicConfigs" -> new Properties();
                    default -> throw looksInside(of);
                });
                case "metadataCache" -> answering(MetadataCache.class, (of, with) -> switch (of.getName()) {
                    case "numPartitions" -> Optional.of(partitionsOf((String) with[0])).filter(count -> count > 0);
                    case "getLeaderAndIsr" -> leaderOf((String) with[0], (int) with[1]);
                    default -> throw looksInside(of);
                });
                default -> throw looksInside(method);
            });
        }

        private interface Answers {
            Object answer(Method method, Object[] arguments);
        }

        private static <T> T answering(Class<T> type, Answers answers) {
            InvocationHandler handler = (proxy, method, arguments) -> switch (method.getName()) {
                case "hashCode" -> System.identityHashCode(proxy);
                case "equals" -> proxy == arguments[0];
                case "toString" -> type.getSimpleName();
                default -> answers.answer(method, arguments);
            };
            return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
        }

        private KafkaConfig kafkaConfig() {
            Properties properties = new Properties();
            properties.putAll(config.serverProperties());
            properties.putAll(Map.of(
                "process.roles", "broker,controller",
                "node.id", String.valueOf(ID),
                "controller.listener.names", "CONTROLLER",
                "controller.quorum.voters", ID + "@localhost:1",
                "listeners", "EXTERNAL://localhost:" + port + ",CONTROLLER://localhost:1",
                "listener.security.protocol.map", "EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name", "EXTERNAL"));
            return new KafkaConfig(properties);
        }

        private static UnsupportedOperationException looksInside(Method method) {
            return new UnsupportedOperationException(
                "looks inside of the broker: " + method.getDeclaringClass().getSimpleName() + "." + method.getName());
        }
    }

    static void waitForCondition(java.util.function.Supplier<Boolean> condition, String otherwise)
            throws InterruptedException {
        Instant end = Instant.now().plusSeconds(15);
        while (!condition.get()) {
            if (Instant.now().isAfter(end)) {
                throw new AssertionError(otherwise);
            }
            TimeUnit.MILLISECONDS.sleep(100);
        }
    }
}
