package table

import "unique"

// handles caches the handles of namespaces that a Replace needs. Making a handle takes a lookup in
// a table that the whole program shares. Most lists come in the order of their namespaces, so the
// last handle is checked first. The zero value is empty.
type handles struct {
	last   unique.Handle[string]
	lastOf string                           // the namespace of last
	all    map[string]unique.Handle[string] // by namespace; nil before the first call of handle
}

// handle returns the handle of a namespace. The cache keeps the handle's own copy of the name, so
// it does not keep the object alive that the name came from.
func (h *handles) handle(of string) unique.Handle[string] {
	if h.all != nil && h.lastOf == of {
		return h.last
	}
	handle, ok := h.all[of]
	if !ok {
		if h.all == nil {
			h.all = make(map[string]unique.Handle[string])
		}
		handle = unique.Make(of)
		h.all[handle.Value()] = handle
	}
	h.last, h.lastOf = handle, handle.Value()
	return handle
}
