import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.common.TopicPartition;

/**
 * Counts words: lines of one topic in, each word with its count out to another.
 *
 * Arguments: bootstrap servers, application id, state folder, topic in, topic out and, unless it is
 * to count exactly once, another processing guarantee, and the group protocol, unless it is classic.
 * It says on its
 * standard output when it runs and how many records it restored, and closes on SIGTERM.
 */
public final class WordCount {
    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
            arguments.length > 5 ? arguments[5] : StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        if (arguments.length > 6) {
            settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, arguments[6]);
        } else {
            settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "10000");
        }
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), "10000");

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[3])
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream()
            .to(arguments[4], Produced.with(Serdes.String(), Serdes.Long()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setGlobalStateRestoreListener(new Restoring());
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        CountDownLatch stopped = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close();
            stopped.countDown();
        }));
        streams.start();
        stopped.await();
    }

    private static final class Restoring implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition of, String store, long first, long last) {
        }

        @Override
        public void onBatchRestored(TopicPartition of, String store, long last, long count) {
        }

        @Override
        public void onRestoreEnd(TopicPartition of, String store, long total) {
            System.out.println("restored " + store + " " + of + " " + total);
        }
    }
}
