// Package table holds the objects of a collection in memory, with indexes and snapshots of one state.
//
// A [Store] is cut into shards by the hash of the key. Each has a mutex for its writers, a [Table] from which a Get reads
// without a lock, and a [Vector] with the same objects side by side, from which snapshots are taken. [Groups] is an index.
//
// # What a reader sees
//
// The store is strictly serializable: once any read has shown a change, no read that begins later shows the state before it,
// whatever kind the two reads are of. Two-phase locking does it. A writer first takes the locks of all that it changes (its
// shard, the reported version, the stripes of each index that it touches), then changes all of it, then lets go; every read
// but Get takes the lock of what it reads. A Get is ordered by the one atomic store that its writer does while it holds those
// locks.
//
// The order of the locks: shards ascending, the version, then index by index the stripes ascending. In a store with an owner
// the owner's lock is that of all shards and of the version.
//
// # Long writes
//
// A Replace and a new index take long and call their user's functions, so they hold no mutex meanwhile. They claim the
// shards: writers wait on a condition until the claim is released, readers notice nothing. What they build is put in place
// at the end, under all locks at once.
package table
