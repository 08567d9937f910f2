import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import net.spy.memcached.MemcachedClient;

/** Stores the plain values of cases.json, one a line, with spymemcached: Write.java PORT CASES. */
public class Write {
    public static void main(String[] arguments) throws Exception {
        MemcachedClient client = new MemcachedClient(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
        Pattern row = Pattern.compile("\"([^\"]+)\": (.*?),?");
        for (String line : Files.readAllLines(Path.of(arguments[1]))) {
            Matcher matcher = row.matcher(line);
            Object value = matcher.matches() ? build(matcher.group(2)) : null;
            if (value != null) {
                client.set(matcher.group(1).replace(' ', '_'), 0, value).get();
            }
        }
        client.set("list", 0, Arrays.asList(1, 2, 3)).get();
        client.shutdown();
    }

    /** The value of a row, or null where it is none that spymemcached has a form for. */
    static Object build(String json) {
        if (json.equals("true") || json.equals("false")) {
            return Boolean.valueOf(json);
        }
        if (json.matches("-?\\d+")) {
            long number = Long.parseLong(json);
            return number == (byte) number && number < 0 ? (Object) (byte) number
                : number == (int) number ? (Object) (int) number : (Object) number;
        }
        if (json.matches("\"[^\"\\\\]*\"")) {
            return json.substring(1, json.length() - 1);
        }
        List<String> words = Arrays.asList(json.split("[{}\\[\\]\":, ]+"));
        if (json.startsWith("{\"float\"")) {
            double number = Double.parseDouble(words.get(2));
            return number == (float) number ? (Object) (float) number : (Object) number;
        }
        if (json.startsWith("{\"hex\"")) {
            return hex(words.get(2));
        }
        if (json.startsWith("{\"random\"")) {
            return random(Integer.parseInt(words.get(2)));
        }
        Matcher repeat = Pattern.compile("\\{\"repeat\": \\[\"(.*?)\", (\\d+)(?:, \"(.*?)\")?\\]\\}").matcher(json);
        return repeat.matches()
            ? repeat.group(1).repeat(Integer.parseInt(repeat.group(2))) + (repeat.group(3) == null ? "" : repeat.group(3))
            : null;
    }

    static byte[] hex(String digits) {
        byte[] bytes = new byte[digits.length() / 2];
        for (int at = 0; at < bytes.length; at++) {
            bytes[at] = (byte) Integer.parseInt(digits.substring(2 * at, 2 * at + 2), 16);
        }
        return bytes;
    }

    /** The bytes of a linear congruential generator, which is the same in every language. */
    static byte[] random(int len) {
        byte[] bytes = new byte[len];
        long state = 1;
        for (int at = 0; at < len; at++) {
            state = (state * 1103515245L + 12345) & 0x7fffffff;
            bytes[at] = (byte) (state >> 16);
        }
        return bytes;
    }
}
