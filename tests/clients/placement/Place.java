// Which server spymemcached's KetamaNodeLocator gives a key: Place SERVERS KEYS

import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import net.spy.memcached.DefaultHashAlgorithm;
import net.spy.memcached.KetamaNodeLocator;
import net.spy.memcached.MemcachedNode;
import net.spy.memcached.util.DefaultKetamaNodeLocatorConfiguration;

public class Place {
    public static void main(String[] arguments) throws Exception {
        List<MemcachedNode> nodes = new ArrayList<>();
        Map<MemcachedNode, Integer> index = new java.util.IdentityHashMap<>();
        Map<InetSocketAddress, Integer> weights = new HashMap<>();
        boolean weighted = false;
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] fields = line.split("\t");
            byte[] bytes = InetAddress.getByName(fields[3]).getAddress();
            InetAddress address =
                fields[0].equals(fields[3]) ? InetAddress.getByAddress(bytes) : InetAddress.getByAddress(fields[0], bytes);
            InetSocketAddress socket = new InetSocketAddress(address, Integer.parseInt(fields[1]));
            MemcachedNode node = node(socket);
            weights.put(socket, Integer.parseInt(fields[2]));
            weighted |= !fields[2].equals("1");
            index.put(node, nodes.size());
            nodes.add(node);
        }
        var locator = weighted
            ? new KetamaNodeLocator(
                nodes, DefaultHashAlgorithm.KETAMA_HASH, weights, new DefaultKetamaNodeLocatorConfiguration())
            : new KetamaNodeLocator(nodes, DefaultHashAlgorithm.KETAMA_HASH);
        StringBuilder said = new StringBuilder();
        for (String key : Files.readAllLines(Path.of(arguments[1]))) {
            said.append(index.get(locator.getPrimary(key))).append('\n');
        }
        System.out.print(said);
    }

    /** A node of which the locator needs only the address. */
    private static MemcachedNode node(InetSocketAddress socket) {
        return (MemcachedNode) Proxy.newProxyInstance(
            Place.class.getClassLoader(),
            new Class<?>[] {MemcachedNode.class},
            (proxy, method, arguments) -> switch (method.getName()) {
                case "getSocketAddress" -> socket;
                case "hashCode" -> System.identityHashCode(proxy);
                case "equals" -> proxy == arguments[0];
                case "toString" -> socket.toString();
                default -> throw new UnsupportedOperationException(method.getName());
            });
    }
}
