// Package lwtest helps to test what is built on package lw.
//
// [Source] checks an implementation of [lw.Source] for list/watch consistency: that of an aggregated API, a proxy in front of an
// API server, or a collection that is none of Kubernetes at all. It draws histories of writes, lists, pages, watches and
// streamed lists, and compares what the source says with what was written. When it finds a history that goes wrong it shrinks
// it, prints it step by step, and says how to run it again.
//
// [Server] is an API server for the tests of a controller: real HTTP, a real server's versions, history and errors, and faults on
// demand. [Outages] are the ones that every controller meets some day; a test that runs it through each of them is a loop.
//
// Package lw itself depends on nothing that this package needs.
package lwtest
