// The suite of gomemcache, text protocol. Prints how many tests passed and failed, as `cargo xtask test` reads it.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

var client = newClient()

func newClient() *memcache.Client {
	client := memcache.New("127.0.0.1:" + os.Getenv("SCRUBJAY_PORT"))
	client.Timeout = 10 * time.Second
	return client
}

// must ends a test that expected no error.
func must(err error) {
	if err != nil {
		panic(err.Error())
	}
}

// is ends a test that expected another error.
func is(err, expected error) {
	if !errors.Is(err, expected) {
		panic(fmt.Sprintf("error %v, expected %v", err, expected))
	}
}

// holds ends a test if key has another value.
func holds(key, value string) {
	item, err := client.Get(key)
	must(err)
	if string(item.Value) != value {
		panic(fmt.Sprintf("%s: %.100q, expected %.100q", key, item.Value, value))
	}
}

func set(key, value string) {
	must(client.Set(&memcache.Item{Key: key, Value: []byte(value)}))
}

var tests = []struct {
	name string
	run  func()
}{
	{"set and get", func() {
		set("a", "1")
		holds("a", "1")
		set("empty", "")
		holds("empty", "")
		_, err := client.Get("nothing")
		is(err, memcache.ErrCacheMiss)
	}},
	{"flags", func() {
		must(client.Set(&memcache.Item{Key: "flags", Value: []byte("x"), Flags: 0xfffffffe}))
		item, err := client.Get("flags")
		must(err)
		if item.Flags != 0xfffffffe {
			panic(fmt.Sprint("flags ", item.Flags))
		}
	}},
	{"get many", func() {
		var keys []string
		for index := range 300 {
			key := fmt.Sprint("many-", index)
			keys = append(keys, key)
			set(key, key)
		}
		items, err := client.GetMulti(append(keys, "missing"))
		must(err)
		for _, key := range keys {
			if items[key] == nil || string(items[key].Value) != key {
				panic(key)
			}
		}
		if len(items) != len(keys) {
			panic(fmt.Sprint(len(items), " items"))
		}
	}},
	{"add and replace", func() {
		_ = client.Delete("once")
		item := &memcache.Item{Key: "once", Value: []byte("1")}
		is(client.Replace(item), memcache.ErrNotStored)
		must(client.Add(item))
		is(client.Add(item), memcache.ErrNotStored)
		must(client.Replace(&memcache.Item{Key: "once", Value: []byte("2")}))
		holds("once", "2")
	}},
	{"append and prepend", func() {
		set("middle", "=")
		must(client.Append(&memcache.Item{Key: "middle", Value: []byte(">")}))
		must(client.Prepend(&memcache.Item{Key: "middle", Value: []byte("<")}))
		holds("middle", "<=>")
		is(client.Append(&memcache.Item{Key: "no-middle", Value: []byte(">")}), memcache.ErrNotStored)
	}},
	{"compare and swap", func() {
		set("swap", "1")
		first, err := client.Get("swap")
		must(err)
		second, err := client.Get("swap")
		must(err)
		first.Value = []byte("2")
		must(client.CompareAndSwap(first))
		second.Value = []byte("3")
		is(client.CompareAndSwap(second), memcache.ErrCASConflict)
		holds("swap", "2")
		must(client.Delete("swap"))
		is(client.CompareAndSwap(second), memcache.ErrCacheMiss)
	}},
	{"increment and decrement", func() {
		set("count", "10")
		number, err := client.Increment("count", 5)
		must(err)
		if number != 15 {
			panic(fmt.Sprint(number))
		}
		number, err = client.Decrement("count", 100)
		must(err)
		if number != 0 {
			panic(fmt.Sprint(number))
		}
		_, err = client.Increment("no-count", 1)
		is(err, memcache.ErrCacheMiss)
		set("word", "abc")
		if _, err = client.Increment("word", 1); err == nil {
			panic("a word was incremented")
		}
	}},
	{"touch, get and touch", func() {
		set("life", "x")
		must(client.Touch("life", 1000))
		item, err := client.GetAndTouch("life", 500)
		must(err)
		if string(item.Value) != "x" {
			panic(string(item.Value))
		}
		is(client.Touch("no-life", 1000), memcache.ErrCacheMiss)
	}},
	{"negative exptime is expired at once", func() {
		set("old", "x")
		must(client.Set(&memcache.Item{Key: "old", Value: []byte("y"), Expiration: -1}))
		_, err := client.Get("old")
		is(err, memcache.ErrCacheMiss)
	}},
	{"delete", func() {
		set("gone", "x")
		must(client.Delete("gone"))
		is(client.Delete("gone"), memcache.ErrCacheMiss)
	}},
	{"every byte is safe", func() {
		value := make([]byte, 0, 4096)
		for index := range 4096 {
			value = append(value, byte(index))
		}
		value = append(value, "\r\nEND\r\n"...)
		must(client.Set(&memcache.Item{Key: "schlüssel", Value: value}))
		holds("schlüssel", string(value))
	}},
	{"keys of every length", func() {
		for _, length := range []int{1, 249, 250} {
			set(strings.Repeat("k", length), fmt.Sprint(length))
			holds(strings.Repeat("k", length), fmt.Sprint(length))
		}
		is(client.Set(&memcache.Item{Key: strings.Repeat("k", 251)}), memcache.ErrMalformedKey)
	}},
	{"large values", func() {
		for _, size := range []int{8191, 65536, 500_000, 1_048_000} {
			value := bytes.Repeat([]byte("0123456"), size/7)
			must(client.Set(&memcache.Item{Key: "large", Value: value}))
			holds("large", string(value))
		}
		if client.Set(&memcache.Item{Key: "large", Value: make([]byte, 2<<20)}) == nil {
			panic("2 MiB were taken")
		}
		_, err := client.Get("large")
		is(err, memcache.ErrCacheMiss)
	}},
	{"many goroutines", func() {
		var group sync.WaitGroup
		failures := make(chan string, 16)
		shared := newClient()
		shared.MaxIdleConns = 16
		for worker := range 16 {
			group.Add(1)
			go func() {
				defer group.Done()
				for index := range 200 {
					key := fmt.Sprintf("goroutine-%d-%d", worker, index)
					err := shared.Set(&memcache.Item{Key: key, Value: []byte(key)})
					item, missing := shared.Get(key)
					if err != nil || missing != nil || string(item.Value) != key {
						failures <- key
						return
					}
				}
			}()
		}
		group.Wait()
		close(failures)
		for key := range failures {
			panic(key)
		}
	}},
	{"flush all and ping", func() {
		must(client.Ping())
		set("flushed", "x")
		must(client.FlushAll())
		_, err := client.Get("flushed")
		is(err, memcache.ErrCacheMiss)
	}},
}

// passes runs one test; a panic is its failure.
func passes(name string, run func()) (passed bool) {
	defer func() {
		if failure := recover(); failure != nil {
			fmt.Printf("FAILED: %s: %v\n", name, failure)
			passed = false
		}
	}()
	run()
	return true
}

func main() {
	failed := 0
	for _, test := range tests {
		if !passes(test.name, test.run) {
			failed++
		}
	}
	fmt.Printf("%d passed, %d failed\n", len(tests)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
