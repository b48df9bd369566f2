package decode

// PassOver makes the decoder pass over the objects that wanted does not want, in their bytes: it
// makes nothing of them, and yields them with Passed. wanted must not keep its arguments. Decoding
// goroutines call it concurrently. It applies to all streams until the next call of PassOver; nil
// means that all are wanted.
//
// An object is decoded, and left to the caller, if its bytes do not plainly say who it is.
func (d *Decoder) PassOver(wanted func(namespace, name string) bool) { d.wanted = wanted }

// An identified is what the bytes of an object say of it, as parts of the input.
type identified struct{ namespace, name, version []byte }

// passes returns the version of an object that nobody wants; 0 if it is to be decoded.
func (d *Decoder) passes(id *identified) uint64 {
	at := versionNumber(id.version)
	if len(id.name) == 0 || at == 0 || d.wanted(unsafeString(id.namespace), unsafeString(id.name)) {
		return 0
	}
	return at
}

// versionNumber returns version as a number; 0 if it is none that fits.
func versionNumber(version []byte) (n uint64) {
	const fits = 19 // every number of 19 digits fits a uint64
	if len(version) == 0 || len(version) > fits || version[0] == '0' {
		return 0
	}
	for _, c := range version {
		if c < '0' || c > '9' {
			return 0
		}
		n = 10*n + uint64(c-'0')
	}
	return n
}

// passJSON passes over the JSON object that is next, if nobody wants it. Otherwise, and if its
// identity is not where it should be, the parser stays where it is, and Passed is 0. An error is
// one of the syntax.
func (d *Decoder) passJSON() (o Object, err error) {
	start, depth := d.p.pos, d.p.depth
	id, ok := d.identifyAhead(&o)
	d.p.pos, d.p.depth = start, depth
	if !ok {
		return Object{}, nil
	}
	if o.Passed = d.passes(&id); o.Passed == 0 {
		return Object{}, nil
	}
	if o.Ident.Kind == "" || o.Ident.APIVersion == "" { // one may be behind the metadata
		o.Ident = Ident{}
	}
	return o, d.p.skip()
}

// identifyAhead reads the JSON object that is next up to the end of its identity, and what it says
// of its kind before that into o. It leaves the parser anywhere.
func (d *Decoder) identifyAhead(o *Object) (id identified, ok bool) {
	p := &d.p
	if p.next() != '{' {
		return id, false
	}
	empty, err := p.open('}')
	for more := !empty; more && err == nil; {
		var key []byte
		if key, err = p.key(); err != nil {
			break
		}
		switch string(key) {
		case "metadata":
			return id, d.identifyMeta(&id)
		case "kind":
			o.Ident.Kind, err = d.readString(&d.kinds[0])
		case "apiVersion":
			o.Ident.APIVersion, err = d.readString(&d.kinds[1])
		default:
			err = p.skip()
		}
		if err == nil {
			more, err = p.more('}')
		}
	}
	return id, false
}

// identifyMeta reads the metadata that is next, up to the last member that identifies the object.
// It reports false if one of them is no plain string.
func (d *Decoder) identifyMeta(id *identified) bool {
	p := &d.p
	if p.next() != '{' {
		return false
	}
	empty, err := p.open('}')
	for more := !empty; more && err == nil; {
		if len(id.name) > 0 && len(id.namespace) > 0 && len(id.version) > 0 {
			return true
		}
		var key, value []byte
		if key, err = p.key(); err != nil {
			break
		}
		var to *[]byte
		switch string(key) {
		case "name":
			to = &id.name
		case "namespace":
			to = &id.namespace
		case "resourceVersion":
			to = &id.version
		}
		switch {
		case to == nil:
			err = p.skip()
		case p.next() != '"':
			return false
		default:
			if value, err = p.str(); err == nil && !p.plain {
				return false
			}
			*to = value
		}
		if err == nil {
			more, err = p.more('}')
		}
	}
	return err == nil
}

// passMessage returns the version of the object whose protobuf message is data, if nobody wants it,
// and else 0. In every API type field 1 is the ObjectMeta, and servers write it first; see
// messageIdent.
func (d *Decoder) passMessage(data []byte) uint64 {
	w := wire{data: data}
	num, typ, err := w.field()
	if err != nil || num != 1 {
		return 0
	}
	var id identified
	if meta, err := w.message(typ); err != nil || !id.readMessage(meta) {
		return 0
	}
	return d.passes(&id)
}

// readMessage reads an ObjectMeta.
func (id *identified) readMessage(meta []byte) bool {
	w := wire{data: meta}
	for !w.done() {
		num, typ, err := w.field()
		if err != nil {
			return false
		}
		var to *[]byte
		switch num {
		case 1:
			to = &id.name
		case 3:
			to = &id.namespace
		case 6:
			to = &id.version
		}
		if to == nil {
			err = w.skip(typ)
		} else {
			*to, err = w.message(typ)
		}
		if err != nil {
			return false
		}
	}
	return true
}
