package lw

// Followers returns how many consumers inf has, and how many of them wait for its first list.
func Followers[T Object](inf *Informer[T]) (all, waiting int) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return int(inf.log.live.Load()) + len(inf.waiting), len(inf.waiting)
}

// Renamed returns how many names the result of a Transform remembers.
func Renamed[T Object](src Source[T]) int { return src.(interface{ names() int }).names() }

func (t *transformed[T, U]) names() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.renamed)
}
