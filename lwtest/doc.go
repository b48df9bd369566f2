// Package lwtest helps to test programs that use package lw.
//
// [Server] is an API server for the tests of a controller. It speaks HTTP and has the resource
// versions, the history and the errors of a real server. [Server.Inject] adds faults. [Outages] are
// the failures that every controller meets some day; a test can run its controller through each of
// them in a loop.
//
// [Source] checks an implementation of [lw.Source] for list/watch consistency. The implementation
// may be in front of an aggregated API, a proxy of an API server, or a collection outside
// Kubernetes. Source makes random histories of writes, lists, pages, watches and streamed lists,
// and compares what the source yields with what was written. If a history fails, Source shrinks it,
// prints it step by step, and says how to run it again.
//
// [TestCollection] checks a collection in memory, such as a type that wraps an informer, in the
// same way: reads, handlers and waits must agree with what was written.
//
// [Projection] compares a type with a few fields of an API type, of which [lw.HTTP] decodes nothing
// else, with that API type: name by name, and number by number.
//
// [Prune] cuts an object to the fields that an informer with lw.HTTP.Only keeps.
//
// [MutationDiff] shows what a program changed in a cached object.
//
// Package lw does not depend on the packages that lwtest needs.
package lwtest
