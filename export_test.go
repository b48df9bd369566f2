package lw

// Renamed returns how many names the result of a Transform remembers.
func Renamed[T Object](src Source[T]) int { return src.(interface{ names() int }).names() }

func (t *transformed[T, U]) names() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.renamed)
}
