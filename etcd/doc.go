// Package etcd makes the keys under a prefix of an etcd a collection of package lw: an [lw.Source]
// that informers follow, and typed writes.
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
//	jobs, err := etcd.New[*Job](client, "/scheduler/jobs/", nil)
//	informer := lw.NewInformer(jobs, nil)
//
//	stored, err := jobs.Create(ctx, job)
//	err = informer.WaitForResourceVersion(ctx, stored.ResourceVersion)
//
// An object is a value. Its namespace and its name are what its key has behind the prefix. The
// version of an object is the revision of its last change, and that of a list is the revision of
// the store. So versions of all collections of one etcd can be compared.
//
// # What is followed
//
// Each [Collection.Watch] has a gRPC stream of its own. It does not use the client's Watcher, which
// resumes a watch behind the caller's back: a server that was restored from a backup is then silent
// until it has passed the old revision, and goes on as if nothing had been. Before a watch begins,
// the server is asked for what the collection saw last at that position, by one linearizable read.
// If it is another, or if the server has not reached the position, Watch fails with
// [lw.ErrRewound], and the informer lists in a new epoch.
//
// Events of one revision, such as those of a transaction, come together: the informer shows all of
// them or none. A revision that was compacted is 410 Expired, and the informer lists again.
//
// The server is asked for its revision every Options.Progress, and when a wait for a version
// begins. So the position of a collection on which nothing happens stays younger than what is
// compacted, and a wait takes a round trip. This needs etcd 3.4.25, 3.5.8 or newer: older ones may
// answer with a revision of which they have not sent the events.
//
// # What is not seen
//
// The newest object that the watch saw gives away a restored server that is past the position. Not
// seen is one that has this object too, because the backup is newer than it: if nothing else in the
// collection has changed since, nothing is wrong; if something has, it is missed. Restore with
// "etcdutl snapshot restore --bump-revision --mark-compacted", and every watch lists again.
//
// The client's namespace (package clientv3/namespace) is not used: the prefix is the whole one.
package etcd
