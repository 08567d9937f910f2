"""scrubjay's own schemes as docs/client/placement.md has them, written a second time: the pattern for another language."""

import bisect

import xxhash

POINTS = 512


def ring(names, weights):
    """Points of 48 bits; a key belongs to the server of the next one."""
    total = sum(weights)
    points = []
    for index, (name, weight) in enumerate(zip(names, weights)):
        for number in range(max(1, POINTS * len(names) * weight // total)):
            points.append((xxhash.xxh3_64_intdigest(name.encode(), seed=number) >> 16, index))
    points.sort()
    positions = [position for position, _ in points]

    def place(key):
        return points[bisect.bisect_left(positions, xxhash.xxh3_64_intdigest(key) >> 16) % len(points)][1]

    return place


def rendezvous(names, _):
    """The server whose name and the key have the highest hash together."""
    seeds = [xxhash.xxh3_64_intdigest(name.encode()) for name in names]

    def place(key):
        scores = [xxhash.xxh3_64_intdigest(key, seed=seed) for seed in seeds]
        return scores.index(max(scores))

    return place


def jump(names, _):
    """The last of the jumps that stays below the number of servers."""

    def place(key):
        state = xxhash.xxh3_64_intdigest(key)
        here, after = 0, 0
        while after < len(names):
            here = after
            state = (state * 2862933555777941757 + 1) % 2**64
            after = int((here + 1) * (float(1 << 31) / float((state >> 33) + 1)))
        return here

    return place


SCHEMES = {"ring": ring, "rendezvous": rendezvous, "jump": jump}
