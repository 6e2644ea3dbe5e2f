" The execution graph as text.
if exists("b:current_syntax")
  finish
endif
syntax match stitchcudaEntry /^\S.* (.\+)$/
syntax match stitchcudaPlace /[^ (]\+:\d\+\(-\d\+\)\?/
syntax match stitchcudaPlace /\<lines\? \d\+\(-\d\+\)\?/
syntax match stitchcudaName /`[^`]\+`/
highlight default link stitchcudaEntry Title
highlight default link stitchcudaPlace Directory
highlight default link stitchcudaName Identifier
let b:current_syntax = "stitchcuda-graph"
