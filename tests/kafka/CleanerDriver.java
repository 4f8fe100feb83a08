// Apache Kafka's cleaner on folders, without a broker: commands come in by lines, answers go out.
//
// It lies in Kafka's own package for cleanableOffsets, which is visible there alone. Words are parted
// by tabs. Each answer begins with "ok", "fault" or "at" (where a folder's log ends).
//
//   open FOLDER CONFIG CLEAN START NOW             CONFIG is key=value;key=value
//   clean CHECKPOINT NOW MEMORY FACTOR BUFFER      CHECKPOINT is - for no checkpoint
//   close
package org.apache.kafka.storage.internals.log;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public final class CleanerDriver {
    private static final int PRODUCER_EXPIRATION_MS = 86_400_000;
    private static final int TRANSACTION_TIMEOUT_MS = 900_000;

    private final SetTime time = new SetTime();
    private final KafkaScheduler scheduler = new KafkaScheduler(1);
    private final BrokerTopicStats stats = new BrokerTopicStats();
    private UnifiedLog log;

    public static void main(String[] arguments) throws Exception {
        CleanerDriver driver = new CleanerDriver();
        driver.scheduler.startup();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String answer;
            try {
                answer = driver.obey(line.split("\t"));
            } catch (Exception error) {
                error.printStackTrace();
                answer = "fault\t" + error;
            }
            System.out.println(answer.replace('\n', ' '));
            System.out.flush();
        }
        driver.scheduler.shutdown();
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "open":
                return open(words);
            case "clean":
                return clean(words);
            case "close":
                log.prepareActiveSegmentForClose(); // as LogManager does since 4.4.0: it trims the indexes
                log.close();
                return "ok";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private String open(String[] words) throws Exception {
        Map<String, String> config = new HashMap<>();
        for (String pair : words[2].split(";")) {
            String[] sides = pair.split("=", 2);
            config.put(sides[0], sides[1]);
        }
        time.now = Long.parseLong(words[5]);
        log = UnifiedLog.create(
            new File(words[1]), new LogConfig(config), Long.parseLong(words[4]), 0L, scheduler, stats,
            time, TRANSACTION_TIMEOUT_MS,
            new ProducerStateManagerConfig(PRODUCER_EXPIRATION_MS, false), PRODUCER_EXPIRATION_MS,
            new LogDirFailureChannel(1), words[3].equals("clean"), Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        return "at\t" + log.logEndOffset() + "\t" + log.lastStableOffset();
    }

    private String clean(String[] words) throws Exception {
        Optional<Long> checkpoint =
            words[1].equals("-") ? Optional.empty() : Optional.of(Long.parseLong(words[1]));
        time.now = Long.parseLong(words[2]);
        log.removeExpiredProducers(time.now);
        LogCleanerManager.OffsetsToClean offsets =
            LogCleanerManager.cleanableOffsets(log, checkpoint, time.now);
        long firstDirty = offsets.firstDirtyOffset();
        LogToClean work = new LogToClean(log, firstDirty, offsets.firstUncleanableDirtyOffset(), false);
        String selected = "ok\t" + firstDirty + "\t" + work.firstUncleanableOffset()
            + "\t" + work.cleanBytes() + "\t" + work.cleanableBytes();
        if (work.cleanableBytes() == 0)
            return selected;
        int buffer = Integer.parseInt(words[5]);
        Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(Integer.parseInt(words[3])), buffer, 1 << 20,
            Double.parseDouble(words[4]),
            new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", time), time, partition -> { });
        Map.Entry<Long, CleanerStats> done = cleaner.doClean(work, time.now);
        CleanerStats counted = done.getValue();
        return selected + "\t" + done.getKey() + "\t" + cleaner.offsetMap().size() + "\t"
            + counted.mapMessagesRead() + "\t" + counted.messagesWritten() + "\t"
            + counted.invalidMessagesRead();
    }

    private static final class SetTime implements Time {
        private volatile long now;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return System.nanoTime();
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
            throw new UnsupportedOperationException();
        }
    }
}
