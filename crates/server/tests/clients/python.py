"""What programs in Python do, by Debian's package `python3-redis`: python.py PORT."""

import sys

import redis

r = redis.Redis(port=int(sys.argv[1]), decode_responses=True)
assert r.ping()
assert r.flushdb()

# Strings, with conditions and expiry.
assert r.set("greeting", "hello", ex=100)
assert r.get("greeting") == "hello"
assert 0 < r.ttl("greeting") <= 100
assert r.set("greeting", "again", nx=True) is None
assert r.incrby("count", 5) == 5
assert r.incrbyfloat("float", 0.5) == 0.5
assert r.mset({"a": 1, "b": 2})
assert r.mget("a", "none", "b") == ["1", None, "2"]
assert redis.Redis(port=int(sys.argv[1])).getrange("greeting", 1, 3) == b"ell"

# All that a pipeline sent, at once and as a transaction.
with r.pipeline(transaction=False) as pipe:
    for number in range(1000):
        pipe.set(f"key:{number}", number)
    assert pipe.execute() == [True] * 1000
with r.pipeline() as pipe:
    pipe.watch("count")
    value = int(pipe.get("count"))
    pipe.multi()
    pipe.set("count", value + 1)
    assert pipe.execute() == [True]
with r.pipeline() as pipe:
    pipe.watch("count")
    r.incr("count")
    pipe.multi()
    pipe.set("count", 0)
    try:
        pipe.execute()
        raise AssertionError("the watched key has changed")
    except redis.WatchError:
        pass
assert r.get("count") == "7"

# Cursors.
assert len(set(r.scan_iter("key:*", count=7))) == 1000
assert r.dbsize() == 1005

# Typed keys.
assert r.hset("hash", mapping={"one": 1, "two": 2}) == 2
assert r.hgetall("hash") == {"one": "1", "two": "2"}
assert dict(r.hscan_iter("hash")) == {"one": "1", "two": "2"}
assert r.sadd("set", "x", "y") == 2 and r.smembers("set") == {"x", "y"}
assert r.zadd("scores", {"ann": 2.5, "bob": 1}) == 2
assert r.zrange("scores", 0, -1, withscores=True) == [("bob", 1.0), ("ann", 2.5)]
assert r.zrevrank("scores", "ann") == 0
assert r.zrangebyscore("scores", "(1", "+inf") == ["ann"]
assert r.type("scores") == "zset"
try:
    r.get("hash")
    raise AssertionError("a hash is no string")
except redis.ResponseError as error:
    assert str(error).startswith("WRONGTYPE"), error

# Messages.
with r.pubsub(ignore_subscribe_messages=True) as listener:
    listener.subscribe("news")
    listener.psubscribe("w*")
    while listener.get_message(timeout=0.1):
        pass
    listener.get_message(timeout=0.1)
    assert r.publish("news", "one") == 1 and r.publish("weather", "two") == 1
    messages = []
    while len(messages) < 2:
        message = listener.get_message(timeout=60)
        if message:
            messages.append((message["channel"], message["data"]))
    assert messages == [("news", "one"), ("weather", "two")], messages

# What monitoring asks for.
info = r.info()
assert info["redis_version"] and info["connected_clients"] >= 1
assert r.config_get("maxmemory")["maxmemory"].isdigit()
assert any(client["addr"] for client in r.client_list())
assert r.command_count() > 100
assert r.slowlog_get() is not None
print("done")
