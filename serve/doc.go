// Package serve is the server side of lw: it serves collections that a program has in memory by the
// Kubernetes protocol (https://kubernetes.io/docs/reference/using-api/api-concepts/). A collection
// is an [lw.Informer], and the program then is a relay of another server; an [lw.Derived] or
// [lw.Union] of a graph; or a store such as an [lw.Memory], which clients then also write to.
//
//	h := serve.New(&serve.Options{Authorize: serve.AllowAll})
//	go serve.Serve(ctx, h, pods, serve.Resource[*corev1.Pod]{Name: "pods"})
//	http.ListenAndServe("127.0.0.1:8080", h)
//
// Then kubectl -s http://127.0.0.1:8080 get pods -A -w works, and so do the informers of client-go,
// controller-runtime and lw.
//
// # Versions
//
// The resource versions of an informer are those of its server, so a client may go on with any
// other relay of that server, or with the server itself. The versions of a derived collection are
// made here, from the clock and a number of the replica. A version of another process is answered
// with 410 Expired, never with a state that it does not mean.
//
// # What clients share
//
// All clients of a collection share one history of it. An object is encoded once in each encoding
// that somebody asks for, and an object that came as bytes (see [Raw]) is never encoded. A client
// that watches is a place in the history and has no buffer of its own, so a slow one delays nobody.
// It ends with 410 Expired when the history has moved past it.
package serve
