package org.apache.kafka.common.test;

import java.lang.reflect.Method;

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
        for (Object argument : run.getArguments()) {
            if ("streams".equalsIgnoreCase(String.valueOf(argument))) {
                invocation.skip();
                throw new TestAbortedException("wants the streams protocol");
            }
        }
        invocation.proceed();
    }
}
