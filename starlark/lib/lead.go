package lib

var leadRows = []row{}
