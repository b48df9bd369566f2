package lw_test

import (
	"context"
	"fmt"

	"github.com/go-lw/lw"
)

// Each of three replicas of a controller follows its own third of the widgets. A replica knows its
// number from the ordinal of its pod in a StatefulSet, for example.
func ExampleShard() {
	server := lw.NewMemory[*Widget]()
	for i := range 300 {
		if _, err := server.Create(widget(fmt.Sprint("w-", i), i)); err != nil {
			fmt.Println(err)
			return
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	const replicas = 3
	seen := map[lw.Key]int{} // by how many replicas
	for ordinal := range replicas {
		widgets := lw.NewInformer(lw.Shard(server, ordinal, replicas), nil)
		go widgets.Run(ctx)
		if err := widgets.WaitForSync(ctx); err != nil {
			fmt.Println(err)
			return
		}
		for w := range widgets.Store().All() {
			seen[lw.KeyOf(w)]++
		}
	}
	shared := 0
	for _, n := range seen {
		if n > 1 {
			shared++
		}
	}
	fmt.Println(len(seen), "widgets are seen,", shared, "of them by two replicas")
	// Output: 300 widgets are seen, 0 of them by two replicas
}
