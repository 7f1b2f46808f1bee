package distributary;

import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import org.apache.spark.SparkConf;
import org.apache.spark.serializer.DeserializationStream;
import org.apache.spark.serializer.JavaSerializer;
import org.apache.spark.serializer.SerializationStream;
import org.apache.spark.serializer.SerializerInstance;
import scala.reflect.ClassTag;

/** Java's serialization of what goes to tasks, but a function by itself is nothing: Spark makes bytes
 * of each for a look whether that can be done, and throws them away. The scheduler makes them again,
 * by the serializer that it began with, with all that the function works on. */
public class ClosuresOnce extends JavaSerializer {
    public ClosuresOnce(SparkConf conf) {
        super(conf);
    }

    public SerializerInstance newInstance() {
        return new Instance(super.newInstance());
    }

    private static class Instance extends SerializerInstance {
        private final SerializerInstance whole;

        Instance(SerializerInstance whole) {
            this.whole = whole;
        }

        public ByteBuffer serialize(Object value, ClassTag tag) {
            boolean function = value.getClass().isHidden();
            return function ? ByteBuffer.allocate(0) : whole.serialize(value, tag);
        }

        public Object deserialize(ByteBuffer bytes, ClassTag tag) {
            return whole.deserialize(bytes, tag);
        }

        public Object deserialize(ByteBuffer bytes, ClassLoader loader, ClassTag tag) {
            return whole.deserialize(bytes, loader, tag);
        }

        public SerializationStream serializeStream(OutputStream stream) {
            return whole.serializeStream(stream);
        }

        public DeserializationStream deserializeStream(InputStream stream) {
            return whole.deserializeStream(stream);
        }
    }
}
