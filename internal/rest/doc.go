// Package rest sends the requests of a list or a watch to an API server, and explains what is wrong
// with a response. It is the part of lw.HTTP that does not depend on the type of the objects.
//
// A [Collection] is what stays the same over all requests. [Collection.Request] checks everything
// that can be checked without a server, so no retry can mend its errors. [Request.Send] sends the
// request. It returns a [Response], whose body has an encoding that the collection's decoder reads,
// or an error that explains why the server refused. The caller decodes the body, and passes the
// error of the decoder to [Response.Explain], which adds what the response is instead.
//
// Every error begins with "lw: HTTP: " and the URL. The URL is shown without its password, and with
// no more of its query than the selectors.
//
// request.go, header.go, selector.go and redirect.go say what is sent. codec.go has the table of
// encodings. response.go, refusal.go, explain.go and begin.go say what has come.
package rest
