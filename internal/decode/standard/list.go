package standard

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/go-lw/lw/internal/decode"
)

// A list is one that was read whole. Its items are as they came: in protobuf without an envelope.
type list struct {
	decode.Ident // its API version and its kind, and a name where it is none
	meta         metav1.ListMeta
	items        [][]byte
	hasItems     bool
	data         []byte // all of it
	enc          decode.Encoding
	kinds        *decode.Kinds // checks those of the items
}

// List implements Decoder.
func (d *decoder) List(r io.Reader, enc decode.Encoding, yield func(decode.Object) error) (metav1.ListMeta, error) {
	kinds := d.opts.Kinds.OfList()
	meta, err := d.list(r, enc, kinds, yield)
	if err == nil {
		d.opts.Kinds.Take(kinds)
	}
	return meta, err
}

// NextPage implements Decoder.
func (d *decoder) NextPage(r io.Reader, enc decode.Encoding, yield func(decode.Object) error) (metav1.ListMeta, error) {
	return d.list(r, enc, d.opts.Kinds, yield)
}

func (d *decoder) list(r io.Reader, enc decode.Encoding, kinds *decode.Kinds, yield func(decode.Object) error) (metav1.ListMeta, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return metav1.ListMeta{}, cutOff(len(data), err)
	}
	l := list{data: data, enc: enc, kinds: kinds}
	switch enc {
	case decode.Protobuf:
		err = l.readProtobuf()
	case decode.CBOR:
		err = l.readCBOR()
	default:
		err = l.readJSON()
	}
	if err != nil {
		return l.meta, err
	}
	return l.meta, d.items(&l, yield)
}

// items makes the items of l, and yields them.
func (d *decoder) items(l *list, yield func(decode.Object) error) error {
	if err := d.checkList(l); err != nil {
		return err
	}
	named := false // the name of the list has been checked for an item without a kind
	for i, item := range l.items {
		if d.stopped != nil {
			if err := d.stopped(); err != nil {
				return err
			}
		}
		if len(item) > d.opts.Limit {
			return d.tooLarge()
		}
		o := d.decode(item, l.enc, l.enc == decode.Protobuf)
		l.items[i] = nil
		if err := l.kinds.Object(o.Ident.Kind, o.Ident.APIVersion); err != nil {
			return err
		}
		if o.Ident.Kind == "" && !named {
			if err := d.checkName(l); err != nil {
				return err
			}
			named = true
		}
		d.complete(&o, l)
		if err := yield(o); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) tooLarge() error {
	return fmt.Errorf("more than %d bytes in one piece", d.opts.Limit)
}

// readJSON reads a list in JSON.
func (l *list) readJSON() error {
	var whole struct {
		metav1.TypeMeta
		Metadata struct {
			metav1.ListMeta
			Name string `json:"name"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	if err := unmarshal(l.data, &whole); err != nil {
		return syntax(err, l.data, "a list")
	}
	l.Kind, l.APIVersion, l.Name = whole.Kind, whole.APIVersion, whole.Metadata.Name
	l.meta, l.hasItems = whole.Metadata.ListMeta, whole.Items != nil
	l.items = make([][]byte, len(whole.Items))
	for i, item := range whole.Items {
		l.items[i] = item
	}
	return nil
}

// readCBOR reads a list in CBOR, which has the members of one in JSON.
func (l *list) readCBOR() (err error) {
	var whole metav1.List
	if l.Ident, err = readParts(l.data, &whole); err != nil {
		return err
	}
	l.meta, l.hasItems = whole.ListMeta, whole.Items != nil
	if !l.hasItems {
		l.Name = identify(l.data, l.enc, false).Name
	}
	l.items = make([][]byte, len(whole.Items))
	for i := range whole.Items {
		l.items[i] = whole.Items[i].Raw
	}
	return nil
}

// readProtobuf reads a list in protobuf: in each type of list, field 1 is its metadata, and each
// field 2 is an item. apimachinery takes them apart only with the type of the list, which is why
// this is here.
func (l *list) readProtobuf() error {
	u, err := readEnvelope(l.data)
	if err != nil {
		return err
	}
	l.Kind, l.APIVersion, l.hasItems = u.Kind, u.APIVersion, true
	switch {
	case l.Kind == "Status":
		return nil
	case len(u.Raw) == 0: // even an empty one has metadata; the envelope may have been cut off
		return cutOff(len(l.data), io.ErrUnexpectedEOF)
	}
	for at, n := 0, 0; at < len(u.Raw); at += n {
		num, body, size := field(u.Raw[at:])
		if n = size; n == 0 {
			return cutOff(len(l.data), io.ErrUnexpectedEOF)
		}
		switch num {
		case 1:
			if err := l.meta.Unmarshal(body); err != nil {
				return err
			}
		case 2:
			l.items = append(l.items, body[:len(body):len(body)])
		}
	}
	return nil
}

// field returns the number of the protobuf field that data begins with, its bytes if it has a
// length, and the size of all of it: 0 if data is no field.
func field(data []byte) (num uint64, body []byte, size int) {
	const (
		varint  = 0
		fixed64 = 1
		length  = 2
		fixed32 = 5
	)
	tag, n := binary.Uvarint(data)
	if n <= 0 {
		return 0, nil, 0
	}
	rest, skip := data[n:], 0
	switch tag & 7 {
	case varint:
		if _, skip = binary.Uvarint(rest); skip <= 0 {
			return 0, nil, 0
		}
	case fixed64:
		skip = 8
	case fixed32:
		skip = 4
	case length:
		of, m := binary.Uvarint(rest)
		if m <= 0 || of > uint64(len(rest)-m) {
			return 0, nil, 0
		}
		return tag >> 3, rest[m : m+int(of)], n + m + int(of)
	default:
		return 0, nil, 0
	}
	if skip > len(rest) {
		return 0, nil, 0
	}
	return 0, nil, n + skip // it is none of a list
}

// checkList checks that l is a list, whatever lists are called, and the name of one without items.
func (d *decoder) checkList(l *list) error {
	switch {
	case l.Kind == "Status":
		return statusIn(l.data, l.enc)
	case l.Kind == "Table":
		return errors.New("a Table, which is made for people, not a list")
	case l.Kind != "" && l.Kind == d.opts.Kinds.Known(), !l.hasItems && l.Kind != "" && (l.Name != "" || !strings.HasSuffix(l.Kind, "List")):
		return errNoList(l.Kind)
	case len(l.items) > 0 || isCustom(l.APIVersion) && l.Kind != "":
		return nil
	}
	return d.checkName(l)
}

// checkName checks that the name of the list is that of a list of the right objects, for items that
// do not say their kind. Lists of custom resources may have any name.
func (d *decoder) checkName(l *list) error {
	named := strings.HasSuffix(l.Kind, "List")
	switch {
	case l.Kind == "":
		return errors.New("no list: it has no kind")
	case !named && isCustom(l.APIVersion):
		return nil
	case !named:
		return errNoList(l.Kind)
	}
	return l.kinds.List(l.Kind, l.APIVersion)
}

func errNoList(kind string) error { return fmt.Errorf("no list: it is a %.100s", kind) }

// isCustom reports whether apiVersion is of a group that a CustomResourceDefinition may have.
func isCustom(apiVersion string) bool {
	group, _, grouped := strings.Cut(apiVersion, "/")
	return grouped && strings.Contains(group, ".")
}

// complete gives an untyped item that says neither kind nor API version those that follow from the
// list. One that has no kind then is an error, as it is for apimachinery's codec.
func (d *decoder) complete(o *decode.Object, l *list) {
	u, ok := o.Value.(runtime.Unstructured)
	if !ok || !d.untyped {
		return
	}
	if l != nil && o.Ident.Kind == "" && o.Ident.APIVersion == "" {
		kind, named := strings.CutSuffix(l.Kind, "List")
		if known := d.opts.Kinds.Known(); !named && known != "" {
			kind = known
		}
		if kind != "" {
			o.Ident.Kind, o.Ident.APIVersion = kind, l.APIVersion
			content := u.UnstructuredContent()
			content["kind"], content["apiVersion"] = kind, l.APIVersion
			o.Filled = true
		}
	}
	if o.Ident.Kind == "" {
		id := decode.Ident{APIVersion: o.Ident.APIVersion}
		if m, ok := u.(metav1.Object); ok {
			id.Namespace, id.Name, id.UID, id.ResourceVersion = m.GetNamespace(), m.GetName(), m.GetUID(), m.GetResourceVersion()
		}
		*o = decode.Object{Ident: id, Err: errors.New("the object has no kind")}
	}
}

// cutOff returns the error of a stream that ended with err after n bytes, in the middle of a piece.
func cutOff(n int, err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("cut off at byte %d: %w", n, err)
}

// syntax returns err, an error of decoding what, all of which is data, as package decode says it: the
// data are no JSON, end too early, or are no object.
func syntax(err error, data []byte, what string) error {
	is, offset := kjson.SyntaxErrorOffset(err)
	begins := bytes.TrimLeft(data, " \t\r\n")
	switch {
	case is && strings.Contains(err.Error(), "unexpected end"):
		return cutOff(len(data), io.ErrUnexpectedEOF)
	case len(begins) > 0 && begins[0] != '{':
		return &decode.SyntaxError{Offset: int64(len(data) - len(begins)), Msg: fmt.Sprintf("%q, want %s", begins[0], what)}
	case is:
		return &decode.SyntaxError{Offset: offset, Msg: err.Error()}
	}
	return err
}
