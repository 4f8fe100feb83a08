package org.apache.kafka.common.test;

import java.lang.reflect.Method;
import java.lang.reflect.Parameter;

import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.InvocationInterceptor;
import org.junit.jupiter.api.extension.ReflectiveInvocationContext;
import org.opentest4j.TestAbortedException;

/** Aborts a run of a test that asks for the group protocol of Streams (KIP-1071). */
public class NotServed implements InvocationInterceptor {
    @Override
    public void interceptTestTemplateMethod(
            Invocation<Void> invocation, ReflectiveInvocationContext<Method> run, ExtensionContext context)
            throws Throwable {
        Parameter[] parameters = run.getExecutable().getParameters();
        for (int index = 0; index < parameters.length; index++) {
            if (asksForStreams(parameters[index].getName(), run.getArguments().get(index))) {
                invocation.skip();
                throw new TestAbortedException("wants the streams protocol");
            }
        }
        invocation.proceed();
    }

    private static boolean asksForStreams(String name, Object argument) {
        return "streams".equalsIgnoreCase(String.valueOf(argument))
            || Boolean.TRUE.equals(argument) && name.endsWith("ProtocolEnabled")
            || Boolean.TRUE.equals(argument) && name.equals("useNewProtocol");
    }
}
