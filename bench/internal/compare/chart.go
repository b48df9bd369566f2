package compare

import "io"

func (r *Report) SVG(w io.Writer) error { return nil }
