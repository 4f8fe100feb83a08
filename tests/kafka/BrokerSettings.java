import java.lang.reflect.Field;
import java.util.Collection;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;

/** Prints a line for each setting of Apache Kafka's broker: name, type, default, internal or current, alterable or not. */
public class BrokerSettings {
    public static void main(String[] arguments) throws ReflectiveOperationException {
        Field field = DynamicBrokerConfig.class.getDeclaredField("ALL_DYNAMIC_CONFIGS");
        field.setAccessible(true);
        Collection<?> alterable = (Collection<?>) field.get(null);
        for (ConfigDef.ConfigKey key : AbstractKafkaConfig.CONFIG_DEF.configKeys().values()) {
            System.out.println(String.join(
                "\t",
                key.name,
                key.type.toString(),
                key.hasDefault() ? String.valueOf(ConfigDef.convertToString(key.defaultValue, key.type)) : "null",
                key.internalConfig ? "internal" : "current",
                alterable.contains(key.name) ? "alterable" : "fixed"));
        }
    }
}
