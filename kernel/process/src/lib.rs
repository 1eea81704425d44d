//! Extensions that are processes of their own, over the Model Context Protocol.
