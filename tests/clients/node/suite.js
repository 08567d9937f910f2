// The suites of memjs (binary protocol) and memcache-client (text protocol). Prints how many tests passed and failed, as
// `cargo xtask test` reads it.
"use strict";

const assert = require("node:assert");
const memjs = require("memjs");
const { MemcacheClient } = require("memcache-client");

const server = `127.0.0.1:${process.env.SCRUBJAY_PORT}`;
const binary = memjs.Client.create(server, { timeout: 10, conntimeout: 10 });
const text = new MemcacheClient({ server, cmdTimeout: 10000 });

const bytes = Buffer.from([...Array(256).keys()]);
const large = Buffer.alloc(900000, "0123456");

/** The text value that memjs finds under `key`, or null. */
async function found(key) {
  const { value } = await binary.get(key);
  return value && value.toString();
}

const tests = {
  async "memjs: set and get"() {
    assert.strictEqual(await binary.set("a", "1", {}), true);
    assert.strictEqual(await found("a"), "1");
    assert.strictEqual(await found("nothing"), null);
  },
  async "memjs: add and replace"() {
    await binary.delete("once");
    assert.strictEqual(await binary.replace("once", "0", {}), false);
    assert.strictEqual(await binary.add("once", "1", {}), true);
    assert.strictEqual(await binary.add("once", "2", {}), false);
    assert.strictEqual(await binary.replace("once", "3", {}), true);
    assert.strictEqual(await found("once"), "3");
  },
  async "memjs: append"() {
    await binary.set("middle", "=", {});
    assert.strictEqual(await binary.append("middle", ">"), true);
    // Its prepend sends the opcode of append.
    assert.strictEqual(await found("middle"), "=>");
  },
  async "memjs: increment and decrement"() {
    await binary.delete("count");
    assert.strictEqual((await binary.increment("count", 5, { initial: 10 })).value, 10);
    assert.strictEqual((await binary.increment("count", 5, {})).value, 15);
    assert.strictEqual((await binary.decrement("count", 100, {})).value, 0);
  },
  async "memjs: touch and delete"() {
    await binary.set("life", "x", { expires: 100 });
    assert.strictEqual(await binary.touch("life", 1000), true);
    assert.strictEqual(await binary.delete("life"), true);
    assert.strictEqual(await binary.delete("life"), false);
    assert.strictEqual(await binary.touch("life", 1000), false);
  },
  async "memjs: exptime in the past is expired at once"() {
    await binary.set("old", "x", { expires: 60 * 60 * 24 * 31 });
    assert.strictEqual(await found("old"), null);
  },
  async "memjs: every byte is safe, large values"() {
    for (const value of [bytes, large, Buffer.alloc(0)]) {
      assert.strictEqual(await binary.set("bytes", value, {}), true);
      assert.ok((await binary.get("bytes")).value.equals(value));
    }
  },
  async "memjs: requests side by side"() {
    const keys = [...Array(500).keys()].map((index) => `parallel-${index}`);
    await Promise.all(keys.map((key) => binary.set(key, key, {})));
    const values = await Promise.all(keys.map(found));
    assert.deepStrictEqual(values, keys);
  },
  async "memjs: statistics and flush"() {
    await new Promise((resolve, reject) =>
      binary.stats((error, _, stats) => (error || !stats.curr_items ? reject(error) : resolve())),
    );
    await binary.set("flushed", "x", {});
    await binary.flush();
    assert.strictEqual(await found("flushed"), null);
  },
  async "memcache-client: set and get"() {
    for (const value of ["text", "grün", 12345, { list: [1, 2] }]) {
      assert.deepStrictEqual(await text.set("typed", value), ["STORED"]);
      assert.deepStrictEqual((await text.get("typed")).value, value);
    }
    assert.strictEqual(await text.get("nothing"), undefined);
  },
  async "memcache-client: get many"() {
    const keys = [...Array(200).keys()].map((index) => `many-${index}`);
    await Promise.all(keys.map((key) => text.set(key, key)));
    const values = await text.get(keys);
    assert.deepStrictEqual(Object.keys(values).length, keys.length);
    for (const key of keys) assert.strictEqual(values[key].value, key);
  },
  async "memcache-client: cas"() {
    await text.set("swap", "1");
    const { casUniq } = await text.gets("swap");
    assert.deepStrictEqual(await text.cas("swap", "2", { casUniq }), ["STORED"]);
    await assert.rejects(text.cas("swap", "3", { casUniq }), /EXISTS/);
    assert.strictEqual((await text.get("swap")).value, "2");
  },
  async "memcache-client: incr and decr"() {
    await text.set("count", "10");
    assert.strictEqual(await text.incr("count", 5), "15");
    assert.strictEqual(await text.decr("count", 100), "0");
  },
  async "memcache-client: add, append, prepend"() {
    await text.delete("middle").catch(() => {});
    assert.deepStrictEqual(await text.add("middle", "="), ["STORED"]);
    await assert.rejects(text.add("middle", "-"), /NOT_STORED/);
    await text.append("middle", ">");
    await text.prepend("middle", "<");
    assert.strictEqual((await text.get("middle")).value, "<=>");
  },
  async "memcache-client: touch and delete"() {
    await text.set("life", "x");
    assert.deepStrictEqual(await text.touch("life", 1000), ["TOUCHED"]);
    assert.deepStrictEqual(await text.delete("life"), ["DELETED"]);
    await assert.rejects(text.delete("life"), /NOT_FOUND/);
  },
  async "memcache-client: negative exptime is expired at once"() {
    await text.set("old", "x", { lifetime: -1 });
    assert.strictEqual(await text.get("old"), undefined);
  },
  async "memcache-client: every byte is safe, large values"() {
    for (const value of [bytes, large]) {
      await text.set("bytes", value);
      assert.ok((await text.get("bytes")).value.equals(value));
    }
  },
  async "memcache-client: version"() {
    assert.match((await text.version()).join(" "), /VERSION 1\.6\./);
  },
};

async function main() {
  let failed = 0;
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test();
    } catch (error) {
      failed++;
      console.log(`FAILED: ${name}: ${error && error.stack}`);
    }
  }
  console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

main();
