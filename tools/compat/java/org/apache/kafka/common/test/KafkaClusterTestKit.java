package org.apache.kafka.common.test;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;

import kafka.server.BrokerServer;

import org.apache.kafka.metadata.BrokerState;
import org.mockito.Answers;
import org.mockito.Mockito;

/**
 * Stands before the class of this name in Kafka's test framework, for the tests of Streams, Connect
 * and MirrorMaker: where that one starts Apache Kafka inside of the JVM, this one starts our broker as
 * a process. It has what their class {@code EmbeddedKafkaCluster} asks for.
 */
public class KafkaClusterTestKit implements AutoCloseable {
    private static final int ID = 0;

    private final BrokerProcess process;
    private final MockFaultHandler faults = new MockFaultHandler("nothing fails here");

    private KafkaClusterTestKit(Map<String, String> settings) {
        process = new BrokerProcess(ID, 1, settings);
    }

    /** Nothing is to be formatted. */
    public void format() {
    }

    /** Start the broker; it is ready when this returns. */
    public void startup() throws IOException {
        process.start();
    }

    /** It is ready when {@link #startup} returns. */
    public void waitForReadyBrokers() {
    }

    /** The address for clients. */
    public String bootstrapServers() {
        return "localhost:" + process.port();
    }

    /** The one broker, which knows its state and can be stopped and started. */
    public Map<Integer, BrokerServer> brokers() {
        BrokerServer broker = Mockito.mock(BrokerServer.class, call -> switch (call.getMethod().getName()) {
            case "brokerState" -> process.isRunning() ? BrokerState.RUNNING : BrokerState.NOT_RUNNING;
            case "shutdown" -> {
                process.halt();
                yield null;
            }
            case "awaitShutdown" -> null;
            case "startup" -> {
                process.start();
                yield null;
            }
            case "toString", "hashCode", "equals" -> Answers.RETURNS_DEFAULTS.answer(call);
            default -> throw new UnsupportedOperationException(
                "looks inside of the broker: BrokerServer." + call.getMethod().getName());
        });
        return Map.of(ID, broker);
    }

    /** What Kafka's broker would report as faults. */
    public MockFaultHandler nonFatalFaultHandler() {
        return faults;
    }

    /** Stop the broker and delete its folder. */
    @Override
    public void close() {
        process.close();
    }

    /** Takes the settings; a cluster of several nodes is one broker. */
    public static class Builder {
        private final Map<String, String> settings = new HashMap<>();

        /** Take the settings of the first broker. */
        public Builder(TestKitNodes nodes) {
            settings.putAll(nodes.brokerNodes().get(nodes.brokerNodes().firstKey()).propertyOverrides());
        }

        /** Set one for all brokers. */
        public Builder setConfigProp(String key, Object value) {
            settings.put(key, String.valueOf(value));
            return this;
        }

        /** Return the cluster, not yet started. */
        public KafkaClusterTestKit build() {
            return new KafkaClusterTestKit(settings);
        }
    }
}
