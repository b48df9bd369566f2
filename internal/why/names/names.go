// Package names tells things of one name apart, by numbers behind it.
package names

import (
	"container/heap"
	"strconv"
)

// A Set has the names that are in use, of which no two are equal. The zero value is empty. A Set is
// not safe for concurrent use. Take and Release cost the same however many names there are, but for
// the logarithm of the numbers of one base that were given back.
type Set struct {
	// entries has an entry for each name in use, and for each base of one.
	entries map[string]*entry
}

// An entry is what is known of a string: whether it is in use as a name, and which numbers stand
// behind it where it is the base of names.
type entry struct {
	taken bool
	users int     // names in use that have this base
	next  int     // the least number that was never tried; 0 is as 1
	back  numbers // those that were given back and not tried since; all are less than next
}

// Take takes base as a name, or if it is in use, base and the least number that is free, such as
// base#2. It returns the name, and its number. That is 1 if the name is base.
//
// A base may look like a name with a number. Then the number of that name is not free for the
// shorter base, and may not be used again until no name in use has that base.
func (s *Set) Take(base string) (name string, number int) {
	if s.entries == nil {
		s.entries = map[string]*entry{}
	}
	b := s.entry(base)
	b.users++
	for {
		number = b.candidate()
		name = numbered(base, number)
		if e := s.entry(name); !e.taken {
			e.taken = true
			return name, number
		}
	}
}

// Release gives back the name that Take has returned with number for base.
func (s *Set) Release(base string, number int) {
	name, b := numbered(base, number), s.entries[base]
	s.entries[name].taken = false
	if b.users--; b.users == 0 {
		b.next, b.back = 0, nil
	} else {
		heap.Push(&b.back, number)
	}
	s.forget(name)
	s.forget(base)
}

// entry returns the entry of name, which it makes if there is none.
func (s *Set) entry(name string) *entry {
	e := s.entries[name]
	if e == nil {
		e = &entry{}
		s.entries[name] = e
	}
	return e
}

// forget removes the entry of name if nothing needs it.
func (s *Set) forget(name string) {
	if e := s.entries[name]; e != nil && !e.taken && e.users == 0 {
		delete(s.entries, name)
	}
}

// candidate returns the least number that may be free.
func (e *entry) candidate() int {
	if len(e.back) > 0 {
		return heap.Pop(&e.back).(int)
	}
	e.next = max(1, e.next) + 1
	return e.next - 1
}

func numbered(base string, number int) string {
	if number == 1 {
		return base
	}
	return base + "#" + strconv.Itoa(number)
}

// numbers is a heap whose first number is the least.
type numbers []int

func (n numbers) Len() int           { return len(n) }
func (n numbers) Less(i, j int) bool { return n[i] < n[j] }
func (n numbers) Swap(i, j int)      { n[i], n[j] = n[j], n[i] }
func (n *numbers) Push(x any)        { *n = append(*n, x.(int)) }
func (n *numbers) Pop() any {
	last := (*n)[len(*n)-1]
	*n = (*n)[:len(*n)-1]
	return last
}
