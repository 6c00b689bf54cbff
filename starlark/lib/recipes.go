package lib

import (
	"embed"
	"io/fs"
)

// recipes are workflows made of the others, as files: they can be read, copied
// and changed.
//
//go:embed recipes
var recipes embed.FS

// Library holds what comes with the binary, behind "@edged//": recipes.star.
func Library() fs.FS {
	sub, err := fs.Sub(recipes, "recipes")
	if err != nil {
		panic(err) // the name is right
	}
	return sub
}
