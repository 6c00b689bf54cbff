package fault

func (a *answer) damaged(q *question) {}
