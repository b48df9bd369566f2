package wire

// A Served is a server of one collection, for a program that measures in its own way.
type Served struct {
	URL string // the server's, which child.Emit takes
	// Base is what a client takes for the server's URL, and Path that of the collection after it. The
	// list is streamed.
	Base, Path string
	Close      func()
}

// Serve starts a server of n objects of the kind in format: "pods", "mixed" for pods of many shapes,
// or "widgets". The first changing objects can change their status.
func Serve(name string, format Format, n, changing int) (Served, error) {
	k := map[string]kind{"pods": podKind, "mixed": mixedKind, "widgets": widgetKind}[name]
	s, err := newServer(k, []Format{format}, n, changing)
	if err != nil {
		return Served{}, err
	}
	url, _ := s.Address(false)
	return Served{url, url + "/" + streamed, k.path, s.Close}, nil
}
