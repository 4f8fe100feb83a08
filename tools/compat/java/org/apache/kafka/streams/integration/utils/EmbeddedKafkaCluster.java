package org.apache.kafka.streams.integration.utils;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.test.BrokerProcess;
import org.apache.kafka.server.util.MockTime;
import org.apache.kafka.test.TestUtils;

/**
 * Stands before the class of this name in the integration tests of Kafka Streams: one broker of ours
 * as a process, with one replica of everything. What concerns groups of the streams protocol does nothing.
 */
public class EmbeddedKafkaCluster {
    private static final long PATIENCE_MS = 30_000;

    /** A clock of the tests' own, which the broker never sees. */
    public final MockTime time;
    private final BrokerProcess process;

    /** One broker, however many are asked for. */
    public EmbeddedKafkaCluster(int brokers) {
        this(brokers, new Properties());
    }

    /** One broker with these settings. */
    public EmbeddedKafkaCluster(int brokers, Properties settings) {
        this(brokers, settings, Map.of());
    }

    /** One broker with these settings, and when the clock begins. */
    public EmbeddedKafkaCluster(int brokers, Properties settings, long startMs) {
        this(brokers, settings, Map.of(), startMs, System.nanoTime());
    }

    /** One broker with these settings and those of the first. */
    public EmbeddedKafkaCluster(int brokers, Properties settings, Map<Integer, Map<String, String>> each) {
        this(brokers, settings, each, System.currentTimeMillis(), System.nanoTime());
    }

    /** One broker with these settings and those of the first, and when the clock begins. */
    public EmbeddedKafkaCluster(
            int brokers, Properties settings, Map<Integer, Map<String, String>> each, long startMs, long startNs) {
        Map<String, String> all = new HashMap<>(Map.of(
            "group.initial.rebalance.delay.ms", "0",
            "group.min.session.timeout.ms", "0",
            "offsets.topic.num.partitions", "5",
            "transaction.state.log.num.partitions", "5"));
        settings.forEach((key, value) -> all.put(key.toString(), value.toString()));
        all.putAll(each.getOrDefault(0, Map.of()));
        process = new BrokerProcess(0, 1, all);
        time = new MockTime(startMs, startNs);
    }

    /** Start it; it is ready when this returns. */
    public void start() {
        try {
            process.start();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** It is ready when {@link #start} returns. */
    public void verifyClusterReadiness() {
    }

    /** Stop it and delete its folder. */
    public void stop() {
        process.close();
    }

    /** The address for clients. */
    public String bootstrapServers() {
        return "localhost:" + process.port();
    }

    /** A client of the administration. */
    public Admin createAdminClient() {
        return Admin.create(Map.of("bootstrap.servers", bootstrapServers()));
    }

    /** Create topics of one partition. */
    public void createTopics(String... topics) {
        for (String topic : topics) {
            createTopic(topic);
        }
    }

    /** Create a topic of one partition. */
    public void createTopic(String topic) {
        createTopic(topic, 1);
    }

    /** Create a topic. */
    public void createTopic(String topic, int partitions) {
        createTopic(topic, partitions, 1);
    }

    /** Create a topic with one replica, however many are asked for. */
    public void createTopic(String topic, int partitions, int replicas) {
        createTopic(topic, partitions, replicas, Map.of());
    }

    /** Create a topic with settings if it is missing, with one replica, however many are asked for. */
    public void createTopic(String topic, int partitions, int replicas, Map<String, String> settings) {
        NewTopic wanted = new NewTopic(topic, partitions, (short) 1).configs(settings);
        unless(TopicExistsException.class, admin -> admin.createTopics(List.of(wanted)).all());
    }

    /** Delete topics, those that exist. */
    public void deleteTopics(String... topics) {
        for (String topic : topics) {
            deleteTopic(topic);
        }
    }

    /** Delete a topic if it exists. */
    public void deleteTopic(String topic) {
        unless(UnknownTopicOrPartitionException.class, admin -> admin.deleteTopics(List.of(topic)).all());
    }

    /** Delete all topics but the broker's own. */
    public void deleteAllTopics() {
        deleteTopics(ask(admin -> admin.listTopics().names()).toArray(String[]::new));
    }

    /** Wait until there are these topics beside the broker's own, and no other. */
    public void waitForRemainingTopics(long timeoutMs, String... topics) throws InterruptedException {
        TestUtils.waitForCondition(
            () -> ask(admin -> admin.listTopics().names()).equals(Set.of(topics)), timeoutMs, "topics are not as wanted");
    }

    /** The names of all topics but the broker's own. */
    public Set<String> getAllTopicsInCluster() {
        return ask(admin -> admin.listTopics().names());
    }

    /** The settings of a topic, once it exists. */
    public Properties getLogConfig(String topic) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Properties settings = new Properties();
        try {
            TestUtils.waitForCondition(() -> getAllTopicsInCluster().contains(topic), PATIENCE_MS, topic + " does not exist");
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        Config config = ask(admin -> admin.describeConfigs(List.of(resource)).all()).get(resource);
        config.entries().forEach(entry -> settings.put(entry.name(), entry.value()));
        return settings;
    }

    /** A setting of the streams protocol. */
    public void setGroupSessionTimeout(String group, int timeoutMs) {
    }

    /** A setting of the streams protocol. */
    public void setGroupHeartbeatTimeout(String group, int timeoutMs) {
    }

    /** A setting of the streams protocol. */
    public void setGroupStandbyReplicas(String group, int replicas) {
    }

    /** A setting of the streams protocol. */
    public void setGroupStreamsInitialRebalanceDelay(String group, int delayMs) {
    }

    private interface Question<T> {
        KafkaFuture<T> ask(Admin admin);
    }

    private void unless(Class<? extends Exception> fault, Question<Void> request) {
        try {
            ask(request);
        } catch (RuntimeException error) {
            if (!fault.isInstance(error.getCause())) {
                throw error;
            }
        }
    }

    private <T> T ask(Question<T> question) {
        try (Admin admin = createAdminClient()) {
            return question.ask(admin).get();
        } catch (ExecutionException error) {
            throw new RuntimeException(error.getCause());
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }
}
