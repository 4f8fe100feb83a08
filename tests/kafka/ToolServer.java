import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;

import org.apache.kafka.common.utils.internals.Exit;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Runs Kafka's command-line tools one after the other, as each would run in a JVM of its own.
 *
 * A request on standard input is a number of strings: the tool's class, what stands on its standard
 * input, and its arguments. The answer is its exit code, what it printed on either stream, and
 * whether it left nothing behind, so that another tool may run here. It ends with its input.
 */
public final class ToolServer {
    /** Where a tool prints; a class that keeps it from the start prints for the tools that come later. */
    private static final class Output extends OutputStream {
        private ByteArrayOutputStream target; // null: nobody reads it

        @Override
        public synchronized void write(int octet) {
            if (target != null) {
                target.write(octet);
            }
        }

        @Override
        public synchronized void write(byte[] octets, int start, int count) {
            if (target != null) {
                target.write(octets, start, count);
            }
        }

        private synchronized void begin() {
            target = new ByteArrayOutputStream();
        }

        private synchronized byte[] end() {
            byte[] printed = target.toByteArray();
            target = null;
            return printed;
        }
    }

    private static final class Input extends InputStream {
        private volatile InputStream source = InputStream.nullInputStream();

        @Override
        public int read() throws IOException {
            return source.read();
        }

        @Override
        public int read(byte[] octets, int start, int count) throws IOException {
            return source.read(octets, start, count);
        }

        @Override
        public int available() throws IOException {
            return source.available();
        }
    }

    /** Unwinds a tool that has called for its exit, so that it closes what it has opened. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1;
    }

    private record Ended(int code, byte[] printed, byte[] errors) {
    }

    private static final int GRACE_MS = 500;

    private final Input input = new Input();
    private final Output output = new Output();
    private final Output errors = new Output();
    private final List<Runnable> hooks = new CopyOnWriteArrayList<>();
    private final ThreadLocal<Boolean> hasExited = ThreadLocal.withInitial(() -> false);
    private volatile CompletableFuture<Ended> ended = new CompletableFuture<>();

    public static void main(String[] arguments) throws Exception {
        new ToolServer().serve(System.in, System.out);
    }

    private void serve(InputStream from, OutputStream to) throws Exception {
        DataInputStream requests = new DataInputStream(new BufferedInputStream(from));
        DataOutputStream answers = new DataOutputStream(new BufferedOutputStream(to));
        System.setIn(input);
        System.setOut(new PrintStream(output, true, UTF_8));
        System.setErr(new PrintStream(errors, true, UTF_8));
        Exit.setExitProcedure((code, message) -> exit(code));
        Exit.setHaltProcedure((code, message) -> exit(code));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        while (true) {
            String[] words;
            try {
                words = readWords(requests);
            } catch (EOFException end) {
                Runtime.getRuntime().halt(0);
                return;
            }
            Set<Thread> before = Thread.getAllStackTraces().keySet();
            Ended tool = run(words[0], words[1], Arrays.copyOfRange(words, 2, words.length), before);
            answers.writeInt(tool.code);
            writeBytes(answers, tool.printed);
            writeBytes(answers, tool.errors);
            answers.writeBoolean(tool.code == 0 && leftBehind(before).isEmpty());
            answers.flush();
        }
    }

    private Ended run(String name, String stdin, String[] arguments, Set<Thread> before)
            throws Exception {
        CompletableFuture<Ended> end = new CompletableFuture<>();
        ended = end;
        hooks.clear();
        input.source = new ByteArrayInputStream(stdin.getBytes(UTF_8));
        output.begin();
        errors.begin();
        Thread tool = new Thread(() -> call(name, arguments, before), "main");
        tool.setDaemon(true);
        tool.start();
        Ended how = end.get();
        join(tool, GRACE_MS); // what it does while it unwinds is not done by the next tool
        return how;
    }

    /** Runs a tool in the thread that is its main one. */
    private void call(String name, String[] arguments, Set<Thread> before) {
        int code = 0;
        try {
            Method main = Class.forName(name).getMethod("main", String[].class);
            main.invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Exited) {
                return;
            }
            System.err.print("Exception in thread \"main\" ");
            error.getCause().printStackTrace();
            code = 1;
        } catch (ReflectiveOperationException error) {
            error.printStackTrace();
            code = 1;
        }
        for (Thread each : Thread.getAllStackTraces().keySet()) {
            if (!before.contains(each) && !each.isDaemon()) { // a JVM runs on for those
                join(each, 0);
            }
        }
        end(code);
    }

    /** Ends the tool; a thread that unwinds may call again, when the next tool runs already. */
    private void exit(int code) {
        if (!hasExited.get()) {
            hasExited.set(true);
            end(code);
        }
        throw new Exited();
    }

    /** Notes how the tool has ended; what it says from here on would be said by nobody. */
    private synchronized void end(int code) {
        if (ended.isDone()) {
            return;
        }
        for (Runnable hook : hooks) {
            Thread thread = new Thread(hook, "hook");
            thread.setDaemon(true);
            thread.start();
            join(thread, GRACE_MS); // it may wait for the thread that called for the exit
        }
        ended.complete(new Ended(code, output.end(), errors.end()));
    }

    private static void join(Thread thread, long milliseconds) {
        try {
            thread.join(milliseconds);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Returns the threads that there were not before, after a moment in which they may end. */
    private static Set<Thread> leftBehind(Set<Thread> before) throws InterruptedException {
        long until = System.currentTimeMillis() + GRACE_MS;
        while (true) {
            Set<Thread> left = new HashSet<>(Thread.getAllStackTraces().keySet());
            left.removeAll(before);
            if (left.isEmpty() || System.currentTimeMillis() > until) {
                return left;
            }
            Thread.sleep(5);
        }
    }

    private static String[] readWords(DataInputStream requests) throws IOException {
        String[] words = new String[requests.readInt()];
        for (int index = 0; index < words.length; index++) {
            words[index] = new String(requests.readNBytes(requests.readInt()), UTF_8);
        }
        return words;
    }

    private static void writeBytes(DataOutputStream answers, byte[] octets) throws IOException {
        answers.writeInt(octets.length);
        answers.write(octets);
    }
}
