package table

import "unique"

// handles knows some handles, which is faster than to make them: most lists are in the order of their namespaces.
type handles struct {
	last   unique.Handle[string]
	lastOf string
	all    map[string]unique.Handle[string]
}

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
