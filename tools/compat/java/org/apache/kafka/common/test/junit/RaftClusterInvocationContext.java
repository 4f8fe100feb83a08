package org.apache.kafka.common.test.junit;

import java.io.IOException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.BrokerProcess;
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
        private static final int ID = 0; // as the first broker of Kafka's own framework
        private final ClusterConfig config;
        private final BrokerProcess process;

        OneBroker(ClusterConfig config) {
            this.config = config;
            Map<String, String> settings = new HashMap<>(config.serverProperties());
            settings.putAll(config.perServerOverrideProperties().getOrDefault(ID, Map.of()));
            this.process = new BrokerProcess(ID, config.numDisksPerBroker(), settings);
        }

        void checkItCanBe() {
            if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT) {
                throw new TestAbortedException("wants " + config.brokerSecurityProtocol());
            }
        }

        @Override
        public void start() {
            try {
                process.start();
                chooseFeatures();
            } catch (IOException error) {
                throw new IllegalStateException(error);
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

        @Override
        public void stop() {
            process.close();
        }

        @Override
        public boolean started() {
            return process.isRunning();
        }

        @Override
        public boolean stopped() {
            return !process.isRunning();
        }

        @Override
        public void shutdownBroker(int id) {
            process.halt();
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
            return !process.isRunning() ? Map.of() : brokers();
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
            return List.of(process.port());
        }

        @Override
        public List<Integer> controllerBoundPorts() {
            return List.of(process.port());
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
            return "localhost:" + process.port();
        }

        @Override
        public String bootstrapControllers() {
            return bootstrapServers();
        }

        @Override
        public Set<GroupProtocol> supportedGroupProtocols() {
            return Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER);
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
            RaftClusterInvocationContext.waitForCondition(() -> partitionsOf(topic) == partitions, topic + " does not exist");
        }

        @Override
        public void waitTopicDeletion(String topic) throws InterruptedException {
            RaftClusterInvocationContext.waitForCondition(() -> partitionsOf(topic) == 0, topic + " still exists");
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
                    process.halt();
                    yield null;
                }
                case "awaitShutdown" -> null;
                case "startup" -> {
                    start();
                    yield null;
                }
                case "isShutdown" -> !process.isRunning();
                case "boundPort" -> process.port();
                case "config" -> kafkaConfig();
                case "clusterId" -> clusterId();
                case "groupCoordinator" -> answering(GroupCoordinator.class, (of, with) -> switch (of.getName()) {
                    case "groupMetadataTopicConfigs" -> new Properties();
                    default -> throw looksInside(of);
                });
                case "metadataCache" -> answering(MetadataCache.class, (of, with) -> switch (of.getName()) {
                    case "numPartitions" -> Optional.of(partitionsOf((String) with[0])).filter(count -> count > 0);
                    case "getAliveBrokerNodes" -> List.of(new Node(ID, "localhost", process.port()));
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
                "listeners", "EXTERNAL://localhost:" + process.port() + ",CONTROLLER://localhost:1",
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
