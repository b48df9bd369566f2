// Package rest sends the requests of a list or a watch to an API server, and explains what is wrong
// with a response. It is the part of lw.HTTP that does not depend on the type of the objects.
//
// A [Collection] is what stays the same over all requests. [Collection.Request] checks everything
// that can be checked without a server; its errors are those that no retry can mend. [Request.Send]
// returns a [Response], whose body is of an encoding that the collection's decoder reads, or the
// error that explains the refusal. Whoever decodes the body passes the error of that through
// [Response.Explain].
//
// Every error begins with "lw: HTTP: " and the URL, without a password and with no more of its
// query than the selectors. The files: request.go, header.go, selector.go and redirect.go say what
// is sent; codec.go has the table of encodings; response.go, refusal.go, explain.go and begin.go
// say what has come.
package rest
