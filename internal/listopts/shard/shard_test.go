package shard

import (
	"fmt"
	"math"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// The hash is apimachinery's, which servers use.
func TestHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value")
		if got, want := fmt.Sprintf("%016x", Hash(value)), sharding.HashField(value); got != want {
			t.Errorf("Hash(%q) = %s, want %s", value, got, want)
		}
	})
}

// The parts follow each other without a gap, from the first hash to the last, and are as large as
// each other.
func TestPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(1, math.MaxInt)).Draw(t, "n")
		i := rapid.IntRange(0, n-1).Draw(t, "i")
		r := Part(i, n)
		switch {
		case r.First > r.Last:
			t.Errorf("part %d of %d is %x", i, n, r)
		case i == 0 && r.First != 0, i == n-1 && r.Last != math.MaxUint64:
			t.Errorf("part %d of %d is %x: hashes are in no part", i, n, r)
		case i > 0 && Part(i-1, n).Last != r.First-1:
			t.Errorf("part %d of %d ends at %x, and part %d begins at %x", i-1, n, Part(i-1, n).Last, i, r.First)
		}
		// n parts of this size, less one, are no more hashes than there are, and n of one more are
		// no fewer.
		if size := r.Last - r.First; n > 1 && (size > math.MaxUint64/uint64(n) || size+2 < math.MaxUint64/uint64(n)) {
			t.Errorf("part %d of %d has %d hashes", i, n, size+1)
		}
	})
}

// The first hash and the last one of a range are in it, and those beside it are not: no object is
// in two parts, or in none.
func TestContains(t *testing.T) {
	for _, r := range []Range{{5, 5}, {5, 9}, {0, math.MaxUint64}, Part(1, 3)} {
		if !r.Contains(r.First) || !r.Contains(r.Last) || r.First > 0 && r.Contains(r.First-1) || r.Last < math.MaxUint64 &&
			r.Contains(r.Last+1) {
			t.Errorf("%x has other hashes than it should", r)
		}
	}
}

// object is an object with a UID and a namespace.
func object(uid, namespace string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: namespace}}
}

// Every UID is in exactly one part, and a selector of that part is the one that apimachinery writes
// and matches.
func TestSelector(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uid := rapid.OneOf(rapid.String(),
			rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}`)).Draw(t, "uid")
		namespace := rapid.StringMatching("[a-z]{0,3}").Draw(t, "namespace")
		field := rapid.SampledFrom([]string{UID, Namespace}).Draw(t, "field")
		n := rapid.IntRange(1, 9).Draw(t, "n")
		matched := 0
		var all Selector
		var reqs []sharding.ShardRangeRequirement
		for i := range n {
			s := &Selector{Field: field, Ranges: []Range{Part(i, n)}}
			if s.Matches(uid, namespace) {
				matched++
			}
			req := sharding.ShardRangeRequirement{Key: field, Start: fmt.Sprintf("0x%016x", Part(i, n).First),
				End: "0x10000000000000000"}
			if i < n-1 {
				req.End = fmt.Sprintf("0x%016x", Part(i+1, n).First)
			}
			theirs := sharding.NewSelector(req)
			if s.String() != theirs.String() {
				t.Fatalf("part %d of %d is %s, and apimachinery's is %s", i, n, s, theirs)
			}
			if is, err := theirs.Matches(object(uid, namespace)); err != nil || is != s.Matches(uid, namespace) {
				t.Fatalf("%s matches %q in %q: apimachinery says %t, %v", s, uid, namespace, is, err)
			}
			if rapid.Bool().Draw(t, "too") {
				all.Field, all.Ranges, reqs = field, append(all.Ranges, Part(i, n)), append(reqs, req)
			}
		}
		if matched != 1 {
			t.Errorf("%q is in %d of %d parts", uid, matched, n)
		}
		if len(reqs) == 0 {
			return
		}
		theirs := sharding.NewSelector(reqs...)
		parsed, err := Parse(theirs.String())
		if err != nil {
			t.Fatal(err)
		}
		if parsed.String() != all.String() || parsed.String() != theirs.String() {
			t.Errorf("%s is parsed as %s, want %s", theirs, parsed, &all)
		}
		if is, err := theirs.Matches(object(uid, namespace)); err != nil || is != parsed.Matches(uid, namespace) {
			t.Fatalf("%s matches %q in %q: apimachinery says %t, %v", parsed, uid, namespace, is, err)
		}
	})
}

func TestParse(t *testing.T) {
	const lower, upper = "'0x0000000000000000', '0x8000000000000000'", "'0x8000000000000000', '0x10000000000000000'"
	for text, want := range map[string]string{
		"shardRange(object.metadata.uid, " + upper + ")":                                                 "",
		` shardRange ( object.metadata.uid,"0x0000000000000000","0x8000000000000000")`:                   `"shardRange ( object.metadata.uid,\"0x0000000000000000\",\"0x8000000000000000\")" is not shardRange(field, 'start', 'end')`,
		" shardRange( object.metadata.uid,\"0x0000000000000000\",\t'0x8000000000000000' )\n":             "",
		"shardRange(object.metadata.uid, " + lower + ")||shardRange(object.metadata.uid, " + upper + ")": "",
		"shardRange(object.metadata.namespace, " + lower + ")":                                           "",
		"": `"" is not shardRange(field, 'start', 'end')`,
		"shardRange(object.metadata.uid, " + lower +
			") || ": `"" is not shardRange(field, 'start', 'end')`,
		"shardRange(object.metadata.uid, " + lower + ") && shardRange(object.metadata.uid, " + upper +
			")": `is not shardRange(`,
		"shardRange(object.metadata.name, " + lower +
			")": `unsupported field "object.metadata.name": want object.metadata.uid or object.metadata.namespace`,
		"shardRange(object.metadata.uid, " + lower + ") || shardRange(object.metadata.namespace, " + upper +
			")": "all ranges must have one field, not object.metadata.uid and object.metadata.namespace",
		"shardRange(object.metadata.uid, " + lower + ") || shardRange(object.metadata.name, " + upper +
			")": `unsupported field "object.metadata.name"`,
		"shardRange(object.metadata.uid, '0x000000000000000g', '0x8000000000000000')":   `"0x000000000000000g" is not 0x and 16`,
		"shardRange(object.metadata.uid, '0xc000000000000000', '0x8000000000000000')":   "the range from 0xc000000000000000 to 0x8000000000000000 is empty",
		"shardRange(object.metadata.uid, '0x0', '0x8000000000000000')":                  `"0x0" is not 0x and 16 hexadecimal digits in lower case`,
		"shardRange(object.metadata.uid, '0x0000000000000000', '0xC000000000000000')":   `"0xC000000000000000" is not 0x and 16`,
		"shardRange(object.metadata.uid, '0000000000000000', '0x8000000000000000')":     `"0000000000000000" is not 0x and 16`,
		"shardRange(object.metadata.uid, '0x10000000000000000', '0x10000000000000000')": `"0x10000000000000000" is not 0x and 16`,
		"shardRange(object.metadata.uid, '0x8000000000000000', '0x8000000000000000')":   "the range from 0x8000000000000000 to 0x8000000000000000 is empty",
	} {
		_, err := Parse(text)
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.Contains(got, want) {
			t.Errorf("%s: error %q, want %q", text, got, want)
		}
	}
}
