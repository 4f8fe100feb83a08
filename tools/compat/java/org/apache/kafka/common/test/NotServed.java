package org.apache.kafka.common.test;

import java.util.regex.Pattern;

import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Skips a run of a test whose parameters ask for the group protocol of Streams (KIP-1071). */
public class NotServed implements ExecutionCondition {
    private static final Pattern ASKS_FOR_STREAMS =
        Pattern.compile("(^|[\\s=,])streams($|[\\s,])|(ProtocolEnabled|useNewProtocol)=true", Pattern.CASE_INSENSITIVE);

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        return ASKS_FOR_STREAMS.matcher(context.getDisplayName()).find()
            ? ConditionEvaluationResult.disabled("wants the streams protocol")
            : ConditionEvaluationResult.enabled(null);
    }
}
