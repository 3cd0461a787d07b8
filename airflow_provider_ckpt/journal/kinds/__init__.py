"""The kinds of journal events, each with its effect on the state and its JSON form."""
