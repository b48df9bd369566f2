// Package websocket watches over WebSockets. Some proxies buffer a long response, or cut it, but
// let a WebSocket through. API servers send a watch either way.
//
//	lw.HTTP[*corev1.Pod]{URL: u, Client: websocket.Client(c)}
//
// [Client] is for whoever has an *http.Client, and [Transport] for whoever wraps a transport, as
// rest.Config.Wrap of client-go does. Both change watches only: a GET whose query has watch. Its
// request becomes the handshake of a WebSocket, which goes through the transport below, with its
// TLS, its proxy and its credentials. The events come as the body of an ordinary response, in the
// form that they have without a WebSocket. Lists, and all other requests, pass unchanged.
//
// A server that refuses the watch answers the handshake with an ordinary response, such as a 403 or
// a 410 with a Status. That response is passed on. So is a plain stream, from a server or a proxy
// that does not know WebSockets: the watch then goes on without one.
//
// A WebSocket has a connection of its own, in HTTP/1.1, also where other requests share one
// connection of HTTP/2. It does not compress: a streamed list, which a server may compress in an
// ordinary response, comes as it is.
//
// [Handler] is for servers: it sends the watches of an http.Handler over WebSockets.
//
// The module is apart from lw because it needs a WebSocket library,
// https://github.com/coder/websocket.
package websocket
