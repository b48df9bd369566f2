package serve

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/wire"
)

// A member is one that a JSON object is to have.
type member struct {
	name, value string // the value is JSON
	keep        bool   // one that is a text stays

	from, to int // where the value is. from is 0 if there is none, -1 if it stays
}

// withMembers returns data, in which the JSON object at a place has the members. It replaces one
// where it stands, since decoders take the last member of a name; it puts what is missing in front,
// and changes no other byte.
func withMembers(data []byte, at int, members ...member) ([]byte, error) {
	empty, left := true, len(members)
	err := wire.Members(data, at, func(name []byte, from, to int) bool {
		empty = false
		for i := range members {
			m := &members[i]
			if m.from != 0 || string(name) != m.name {
				continue
			}
			if m.from, m.to = from, to; m.keep && hasText(data[from:to]) {
				m.from = -1
			}
			left--
		}
		return left > 0
	})
	if err != nil || !slices.ContainsFunc(members, func(m member) bool { return m.from >= 0 }) {
		return data, err
	}
	var front []byte // new members
	for _, m := range members {
		if m.from == 0 {
			front = append(append(append(append(append(front, '"'), m.name...), `":`...), m.value...), ',')
		}
	}
	if empty {
		front = front[:len(front)-1]
	}
	at = wire.SkipSpace(data, at) + 1
	out := append(append(make([]byte, 0, len(data)+len(front)+64), data[:at]...), front...)
	slices.SortFunc(members, func(a, b member) int { return a.from - b.from })
	for _, m := range members {
		if m.from > 0 {
			out = append(append(out, data[at:m.from]...), m.value...)
			at = m.to
		}
	}
	return append(out, data[at:]...), nil
}

// hasText reports whether a JSON value is a string that is not empty.
func hasText(value []byte) bool { return value[0] == '"' && len(value) > len(`""`) }

// withKind returns a JSON object with a kind and an apiVersion.
func withKind(data []byte, kind, apiVersion string) ([]byte, error) {
	return withMembers(data, 0, member{name: "kind", value: `"` + kind + `"`, keep: true},
		member{name: "apiVersion", value: `"` + apiVersion + `"`, keep: true})
}

// withVersion returns a JSON object with another metadata.resourceVersion, and with a
// metadata.uid if it has none and id has one. An object without metadata, or whose metadata is
// no object, gets those of id.
func withVersion(data []byte, version uint64, id identity) ([]byte, error) {
	at, _, err := wire.FindMember(data, 0, "metadata")
	if err != nil {
		return nil, err
	}
	if at == 0 || data[at] != '{' {
		meta, err := json.Marshal(id.metadata(version))
		if err != nil {
			return nil, err
		}
		return withMembers(data, 0, member{name: "metadata", value: string(meta)})
	}
	shows := member{name: "resourceVersion", value: `"` + shown(version) + `"`}
	if id.uid == "" {
		return withMembers(data, at, shows)
	}
	uid, err := json.Marshal(id.uid)
	if err != nil {
		return nil, err
	}
	return withMembers(data, at, shows, member{name: "uid", value: string(uid), keep: true})
}

// identity is what an object whose encoding has no metadata, or no UID, is known by.
type identity struct{ namespace, name, uid string }

// shown is a version as clients see it. What a dry run would create has none.
func shown(version uint64) string {
	if version == 0 {
		return ""
	}
	return strconv.FormatUint(version, 10)
}

func (id identity) metadata(version uint64) map[string]string {
	m := map[string]string{"name": id.name, "resourceVersion": shown(version)}
	if id.namespace != "" {
		m["namespace"] = id.namespace
	}
	if id.uid != "" {
		m["uid"] = id.uid
	}
	return m
}

func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// Fields of the protobuf messages of API objects. Metadata is the first of every kind of object;
// see https://github.com/kubernetes/apimachinery/blob/master/pkg/apis/meta/v1/generated.proto.
const (
	fieldMetadata        = 1
	fieldUID             = 5
	fieldResourceVersion = 6
)

// withVersionProto is withVersion for the protobuf message of an object.
func withVersionProto(message []byte, version uint64, id identity) ([]byte, error) {
	meta, from, to, err := protoField(message, fieldMetadata)
	if err != nil {
		return nil, err
	}
	if meta == nil {
		return nil, errors.New("a protobuf message without metadata")
	}
	_, vFrom, vTo, err := protoField(meta, fieldResourceVersion)
	if err != nil {
		return nil, err
	}
	value := binary.AppendUvarint(nil, fieldResourceVersion<<3|2)
	text := shown(version)
	value = append(binary.AppendUvarint(value, uint64(len(text))), text...)
	meta = concat(meta[:vFrom], value, meta[vTo:])
	uid, uFrom, uTo, err := protoField(meta, fieldUID)
	if err != nil {
		return nil, err
	}
	if id.uid != "" && len(uid) == 0 {
		value := binary.AppendUvarint(nil, fieldUID<<3|2)
		value = append(binary.AppendUvarint(value, uint64(len(id.uid))), id.uid...)
		meta = concat(meta[:uFrom], value, meta[uTo:])
	}
	head := binary.AppendUvarint(nil, fieldMetadata<<3|2)
	head = binary.AppendUvarint(head, uint64(len(meta)))
	return concat(message[:from], head, meta, message[to:]), nil
}

// protoField returns the value of a field of a message that has a length, and the place of the
// whole field. If there is none, the place is the end of the message.
func protoField(message []byte, number uint64) (value []byte, from, to int, err error) {
	for at := 0; at < len(message); {
		tag, n := binary.Uvarint(message[at:])
		if n <= 0 {
			return nil, 0, 0, errNotProto
		}
		start := at + n
		var size uint64
		switch tag & 7 {
		case 0:
			_, n := binary.Uvarint(message[start:])
			size = uint64(max(n, 0))
		case 1:
			size = 8
		case 5:
			size = 4
		case 2:
			length, n := binary.Uvarint(message[start:])
			if n <= 0 {
				return nil, 0, 0, errNotProto
			}
			start += n
			size = length
		}
		if size > uint64(len(message)-start) || size == 0 && tag&7 != 2 {
			return nil, 0, 0, errNotProto
		}
		end := start + int(size)
		if tag == number<<3|2 {
			return message[start:end], at, end, nil
		}
		at = end
	}
	return nil, len(message), len(message), nil
}

var errNotProto = errors.New("not a protobuf message")

// A protoShape is what is known of a kind of message: what each field is, by its number.
type protoShape [18]protoKind

type protoKind struct {
	wire    byte        // plus 1; 0: the field is not known
	message *protoShape // what is in the field; nil: text, bytes or a number
}

var (
	protoNumber = protoKind{wire: 1}
	protoText   = protoKind{wire: 3}

	protoTime    = protoShape{1: protoNumber, 2: protoNumber}
	protoPair    = protoShape{1: protoText, 2: protoText}
	protoFields  = protoShape{1: protoText}
	protoOwner   = protoShape{1: protoText, 3: protoText, 4: protoText, 5: protoText, 6: protoNumber, 7: protoNumber}
	protoManaged = protoShape{
		1: protoText, 2: protoText, 3: protoText, 4: {3, &protoTime}, 6: protoText, 7: {3, &protoFields}, 8: protoText,
	}
	// protoMeta is the shape of an ObjectMeta.
	protoMeta = protoShape{
		1: protoText, 2: protoText, 3: protoText, 4: protoText, 5: protoText, 6: protoText, 7: protoNumber, 8: {3, &protoTime},
		9: {3, &protoTime}, 10: protoNumber, 11: {3, &protoPair}, 12: {3, &protoPair}, 13: {3, &protoOwner}, 14: protoText,
		17: {3, &protoManaged},
	}
)

// fields calls field, unless it is nil, for each field of a message that has a length. It reports
// whether all of the message is as servers write it, and so decodes without an error.
func (s *protoShape) fields(message []byte, field func(number int, value []byte)) bool {
	for at := 0; at < len(message); {
		tag, n := binary.Uvarint(message[at:])
		if at += n; n <= 0 || tag>>3 >= uint64(len(s)) {
			return false
		}
		number := int(tag >> 3)
		kind := s[number]
		if kind.wire == 0 || uint64(kind.wire-1) != tag&7 {
			return false
		}
		size, n := binary.Uvarint(message[at:])
		if at += n; n <= 0 {
			return false
		}
		if kind.wire == protoNumber.wire {
			continue
		}
		if size > uint64(len(message)-at) {
			return false
		}
		value := message[at : at+int(size)]
		if at += int(size); kind.message != nil && !kind.message.fields(value, nil) {
			return false
		}
		if field != nil {
			field(number, value)
		}
	}
	return true
}

// decimal returns a resource version as a number; ok is false if it is none.
func decimal(text string) (version uint64, ok bool) {
	version, err := listopts.ParseVersion(text)
	return version, err == nil && text != ""
}
