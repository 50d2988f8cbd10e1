import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.MemoryRecords;

import java.io.IOException;
import java.io.OutputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import java.util.zip.Deflater;
import java.util.zip.GZIPOutputStream;

/**
 * Writes what Apache Kafka's own generated classes make of every message at every version.
 *
 * <p>Run: {@code java -cp "$(conformance/lib/jars.sh)" conformance/java/GoldenVectors.java schema OUT.tsv.gz}.
 *
 * <p>A line is {@code name TAB version TAB variant TAB hex TAB json}. The schemas in the first argument say which fields
 * a version has; the bytes come from Kafka. Where Kafka has a JSON converter for the message, the JSON is compared
 * with the converter's, so that a wrong reading of a schema cannot hide here.
 */
public final class GoldenVectors {
    /** What the fields of a message hold. */
    enum Variant {
        /** Every field has a value that is not its default; arrays have two elements. */
        FILLED,
        /** Every field that may be null is; the others are filled, arrays with one element. */
        NULLS,
        /** A new object. */
        DEFAULTS,
        /** Long strings, bytes and arrays: lengths that take more than one byte as a varint. */
        WIDE
    }

    private static final int WIDE_LENGTH = 150;
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    private static final List<String> CLASS_NAMES = List.of(
        "org.apache.kafka.common.message.%sData",
        "org.apache.kafka.common.message.%s",
        "org.apache.kafka.coordinator.group.generated.%s",
        "kafka.internals.generated.%s");

    private final JsonNode spec;
    private final Map<String, JsonNode> commonStructs = new HashMap<>();
    private final Class<?> messageClass;
    private final short version;
    private final Variant variant;
    private int counter;

    private GoldenVectors(JsonNode spec, Class<?> messageClass, short version, Variant variant) {
        this.spec = spec;
        this.messageClass = messageClass;
        this.version = version;
        this.variant = variant;
        spec.path("commonStructs").forEach(struct -> commonStructs.put(struct.get("name").asText(), struct.get("fields")));
    }

    public static void main(String[] args) throws Exception {
        int messages = 0;
        int vectors = 0;
        try (OutputStream out = new GZIPOutputStream(Files.newOutputStream(Path.of(args[1]))) {{
            def.setLevel(Deflater.BEST_COMPRESSION);
        }}) {
            for (Path path : schemas(Path.of(args[0]))) {
                JsonNode spec = MAPPER.readTree(path.toFile());
                Class<?> messageClass = classOf(spec.get("name").asText());
                messages++;
                for (short version : versions(spec.get("validVersions").asText())) {
                    for (Variant variant : Variant.values()) {
                        String line = new GoldenVectors(spec, messageClass, version, variant).line();
                        out.write(line.getBytes(StandardCharsets.UTF_8));
                        vectors++;
                    }
                }
            }
        }
        System.err.printf("%d vectors of %d messages%n", vectors, messages);
    }

    private static List<Path> schemas(Path schema) throws IOException {
        List<Path> paths = new ArrayList<>();
        for (String folder : List.of("messages", "headers", "records")) {
            try (Stream<Path> files = Files.list(schema.resolve(folder))) {
                files.filter(path -> path.toString().endsWith(".json")).sorted().forEach(paths::add);
            }
        }
        return paths;
    }

    private static Class<?> classOf(String name) throws ClassNotFoundException {
        for (String pattern : CLASS_NAMES) {
            try {
                return Class.forName(String.format(pattern, name));
            } catch (ClassNotFoundException e) {
                // Requests, records and coordinator records live in different packages: try the next.
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static List<Short> versions(String range) {
        List<Short> versions = new ArrayList<>();
        String[] ends = range.split("-");
        for (int v = Integer.parseInt(ends[0]); v <= Integer.parseInt(ends[ends.length - 1]); v++) {
            versions.add((short) v);
        }
        return versions;
    }

    private static boolean contains(JsonNode range, short version) {
        String text = range.asText("none");
        if (text.isEmpty() || text.equals("none")) {
            return false;
        }
        if (text.endsWith("+")) {
            return version >= Integer.parseInt(text.substring(0, text.length() - 1));
        }
        String[] ends = text.split("-");
        return version >= Integer.parseInt(ends[0]) && version <= Integer.parseInt(ends[ends.length - 1]);
    }

    private String line() throws Exception {
        ObjectNode json = struct(spec.get("fields"), variant == Variant.DEFAULTS);
        Message message = (Message) messageClass.getConstructor().newInstance();
        if (variant != Variant.DEFAULTS) {
            set(message, spec.get("fields"), json);
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException("size and write of " + messageClass + " differ");
        }
        compareWithConverter(message, json);
        return String.join("\t", spec.get("name").asText(), Short.toString(version), variant.name().toLowerCase(),
            HexFormat.of().formatHex(buffer.array()), MAPPER.writeValueAsString(json)) + "\n";
    }

    /** Kafka's converters exist for what is in the client library; they write no record bytes. */
    private void compareWithConverter(Message message, ObjectNode json) throws Exception {
        Class<?> converter;
        try {
            converter = Class.forName(messageClass.getName() + "JsonConverter");
        } catch (ClassNotFoundException e) {
            return;
        }
        Method write = converter.getMethod("write", messageClass, short.class, boolean.class);
        JsonNode theirs = (JsonNode) write.invoke(null, message, version, true);
        JsonNode fields = spec.get("fields");
        // Through text, since trees of the same text may hold their numbers in nodes of different width.
        JsonNode ours = withoutRecords(fields, MAPPER.readTree(MAPPER.writeValueAsString(json)));
        JsonNode reread = withoutRecords(fields, MAPPER.readTree(MAPPER.writeValueAsString(theirs)));
        if (!ours.equals(reread)) {
            throw new IllegalStateException(spec.get("name") + " " + version + " " + variant + "\n" + ours + "\n" + reread);
        }
    }

    private JsonNode withoutRecords(JsonNode fields, JsonNode json) {
        for (JsonNode field : fields) {
            String name = lowerFirst(field.get("name").asText());
            JsonNode value = json.path(name);
            if (field.get("type").asText().equals("records") && json.has(name)) {
                ((ObjectNode) json).remove(name);
            } else if (value.isArray() && structFields(field) != null) {
                value.forEach(item -> withoutRecords(structFields(field), item));
            }
        }
        return json;
    }

    /** The fields of the struct that a field is, or is an array of; null for other types. */
    private JsonNode structFields(JsonNode field) {
        String type = elementType(field.get("type").asText());
        if (!Character.isUpperCase(type.charAt(0))) {
            return null;
        }
        return field.has("fields") ? field.get("fields") : commonStructs.get(type);
    }

    private static String elementType(String type) {
        return type.startsWith("[]") ? type.substring(2) : type;
    }

    private static String lowerFirst(String name) {
        return Character.toLowerCase(name.charAt(0)) + name.substring(1);
    }

    // Values.

    private ObjectNode struct(JsonNode fields, boolean defaults) {
        ObjectNode json = NODES.objectNode();
        for (JsonNode field : fields) {
            boolean tagged = contains(field.path("taggedVersions"), version);
            if (!contains(field.get("versions"), version) || (defaults && tagged)) {
                continue;
            }
            JsonNode value = defaults ? defaultOf(field) : filled(field);
            if (tagged && value.equals(defaultOf(field))) {
                continue;
            }
            json.set(lowerFirst(field.get("name").asText()), value);
        }
        return json;
    }

    private JsonNode filled(JsonNode field) {
        String type = field.get("type").asText();
        boolean nullable = contains(field.path("nullableVersions"), version);
        if (variant == Variant.NULLS && nullable) {
            return NullNode.instance;
        }
        if (!type.startsWith("[]")) {
            return value(type, field);
        }
        ArrayNode array = NODES.arrayNode();
        int length = switch (variant) {
            case FILLED -> 2;
            case WIDE -> structFields(field) == null ? WIDE_LENGTH : 1;
            default -> 1;
        };
        for (int i = 0; i < length; i++) {
            array.add(value(elementType(type), field));
        }
        return array;
    }

    /** A value that no other field of the message has and that is not the field's default. */
    private JsonNode value(String type, JsonNode field) {
        int n = ++counter;
        boolean wide = variant == Variant.WIDE;
        return switch (type) {
            case "bool" -> NODES.booleanNode(!defaultOf(field).asBoolean());
            case "int8" -> NODES.numberNode(n % 2 == 0 ? -2 - n % 120 : 4 + n % 120);
            case "int16" -> NODES.numberNode(n % 2 == 0 ? -300 - n : 300 + n);
            case "uint16" -> NODES.numberNode(40000 + n);
            case "int32" -> NODES.numberNode(n % 2 == 0 ? -70000 - n : 70000 + n);
            case "uint32" -> NODES.numberNode(3_000_000_000L + n);
            case "int64" -> NODES.numberNode(n % 2 == 0 ? -5_000_000_000L - n : 5_000_000_000L + n);
            case "float64" -> NODES.numberNode(n + 0.25);
            case "uuid" -> NODES.textNode(new Uuid(0x0123456789abcdefL, 0xfedcba9876543210L + n).toString());
            case "string" -> NODES.textNode((n % 3 == 0 ? "né" : "s") + n + (wide ? "x".repeat(WIDE_LENGTH) : ""));
            case "bytes", "records" -> {
                byte[] bytes = new byte[wide ? 20 * WIDE_LENGTH : 3 + n % 4];
                Arrays.fill(bytes, (byte) n);
                yield NODES.textNode(Base64.getEncoder().encodeToString(bytes));
            }
            default -> struct(structFields(field), false);
        };
    }

    private JsonNode defaultOf(JsonNode field) {
        String type = field.get("type").asText();
        String text = field.path("default").asText("");
        boolean nullableRecords = type.equals("records") && field.has("nullableVersions");
        if (text.equals("null") || nullableRecords) {
            return NullNode.instance;
        }
        if (type.startsWith("[]")) {
            return NODES.arrayNode();
        }
        return switch (type) {
            case "bool" -> NODES.booleanNode(text.equals("true"));
            case "int8", "int16", "uint16", "int32" -> NODES.numberNode(text.isEmpty() ? 0 : Integer.decode(text));
            case "uint32", "int64" -> NODES.numberNode(text.isEmpty() ? 0L : Long.decode(text));
            case "float64" -> NODES.numberNode(0.0);
            case "uuid" -> NODES.textNode(Uuid.ZERO_UUID.toString());
            case "string", "bytes", "records" -> NODES.textNode("");
            default -> struct(structFields(field), true);
        };
    }

    // Setting them in Kafka's objects.

    private void set(Object target, JsonNode fields, JsonNode json) throws Exception {
        for (JsonNode field : fields) {
            String name = lowerFirst(field.get("name").asText());
            if (!json.has(name)) {
                continue;
            }
            Method setter = setter(target.getClass(), field.get("name").asText());
            Object value = convert(field, json.get(name), field.get("type").asText(), setter.getParameterTypes()[0]);
            try {
                setter.invoke(target, value);
            } catch (IllegalArgumentException | InvocationTargetException e) {
                throw new IllegalStateException(target.getClass() + "." + name, e);
            }
        }
    }

    private static Method setter(Class<?> owner, String field) {
        String name = "set" + Character.toUpperCase(field.charAt(0)) + field.substring(1);
        return Stream.of(owner.getMethods())
            .filter(method -> method.getName().equals(name) && method.getParameterCount() == 1)
            .findFirst()
            .orElseThrow(() -> new IllegalStateException(owner + " has no " + name));
    }

    private Object convert(JsonNode field, JsonNode json, String type, Class<?> wanted) throws Exception {
        if (json.isNull()) {
            return null;
        }
        if (type.startsWith("[]")) {
            @SuppressWarnings("unchecked")
            Collection<Object> items = wanted == List.class
                ? new ArrayList<>()
                : (Collection<Object>) wanted.getConstructor().newInstance();
            String element = elementType(type);
            for (JsonNode item : json) {
                items.add(convert(field, item, element, elementClass(element)));
            }
            return items;
        }
        return switch (type) {
            case "bool" -> json.asBoolean();
            case "int8" -> (byte) json.asInt();
            case "int16" -> (short) json.asInt();
            case "uint16", "int32" -> json.asInt();
            case "uint32", "int64" -> json.asLong();
            case "float64" -> json.asDouble();
            case "uuid" -> Uuid.fromString(json.asText());
            case "string" -> json.asText();
            case "records" -> MemoryRecords.readableRecords(ByteBuffer.wrap(json.binaryValue()));
            case "bytes" -> wanted == ByteBuffer.class ? ByteBuffer.wrap(json.binaryValue()) : (Object) json.binaryValue();
            default -> {
                Object struct = elementClass(type).getConstructor().newInstance();
                set(struct, structFields(field), json);
                yield struct;
            }
        };
    }

    private Class<?> elementClass(String type) throws ClassNotFoundException {
        return Character.isUpperCase(type.charAt(0)) ? Class.forName(messageClass.getName() + "$" + type) : Object.class;
    }
}
