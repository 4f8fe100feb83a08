package org.apache.kafka.common.test;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.kafka.server.config.AbstractKafkaConfig;

/** Our broker as a process with a folder of its own, for the classes here that stand before Kafka's. */
public final class BrokerProcess {
    private static final Set<String> OF_SEVERAL_BROKERS = Set.of(
        "default.replication.factor",
        "min.insync.replicas",
        "offsets.topic.replication.factor",
        "transaction.state.log.min.isr",
        "transaction.state.log.replication.factor");
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Pattern ADDRESS = Pattern.compile("listening listener=EXTERNAL address=\\S*:(\\d+)");
    private static final Pattern READY = Pattern.compile("(^|\\s)ready(\\s|$)", Pattern.MULTILINE);

    private final int id;
    private final int disks;
    private final Map<String, String> given;
    private Path folder;
    private Process process;
    private int port;

    /** A broker with these settings, of which those that need several brokers are one. */
    public BrokerProcess(int id, int disks, Map<String, String> given) {
        this.id = id;
        this.disks = disks;
        this.given = given;
    }

    /** Start it, on the folder and at the port of the last start; return when it is ready. */
    public void start() throws IOException {
        if (folder == null) {
            folder = Files.createTempDirectory("siltstone-");
        }
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

    private List<String> command() {
        List<String> directories = new ArrayList<>();
        for (int disk = 0; disk < disks; disk++) {
            directories.add(folder.resolve("data-" + disk).toString());
        }
        Map<String, String> settings = new HashMap<>(given);
        settings.keySet().removeIf(BrokerProcess::isPassedOver);
        settings.replaceAll((key, value) -> OF_SEVERAL_BROKERS.contains(key) ? "1" : value);
        settings.put("log.dirs", String.join(",", directories));
        settings.put("listeners", "EXTERNAL://localhost:" + port);
        settings.put("listener.security.protocol.map", "EXTERNAL:PLAINTEXT");
        settings.put("http.listener", "127.0.0.1:0");
        settings.put("node.id", String.valueOf(id));
        settings.putIfAbsent("log.cleaner.dedupe.buffer.size", "2097152"); // as Kafka's own class has it
        List<String> command = new ArrayList<>(List.of(System.getProperty("siltstone"), "serve"));
        settings.forEach((key, value) -> command.addAll(List.of("--set", key + "=" + value)));
        return command;
    }

    /** Whether Kafka passes over a name that it does not know, where our broker does not start. */
    private static boolean isPassedOver(String name) {
        return !name.startsWith("listener.name.") && !AbstractKafkaConfig.CONFIG_DEF.names().contains(name);
    }

    /** Whether it was started and not halted since. */
    public boolean isRunning() {
        return process != null;
    }

    /** The port that it listens at, once it was started. */
    public int port() {
        return port;
    }

    /** Stop it cleanly; its folder stays for the next start. */
    public void halt() {
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

    /** Stop it and delete its folder. */
    public void close() {
        halt();
        if (folder != null) {
            delete(folder.toFile());
            folder = null;
        }
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
}
