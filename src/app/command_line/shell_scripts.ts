/** The completion scripts of shells. They ask the executable, which knows its commands and flags. @module */

import { COMPLETE_COMMAND, type Shell } from "./args.ts";

/**
 * Bash splits words at `:` and `=`, too. They are joined where the line has no blank between them, and what
 * stands before the last such character is cut from the answers, since Bash keeps it. Works with Bash 3.2,
 * which macOS has.
 */
const BASH = `# bash completion for postern; see "postern completion -help"
_postern() {
  local line=\${COMP_LINE:0:COMP_POINT} word index program words=() current line_of_answer
  program=\${COMP_WORDS[0]/#\\~\\//$HOME/}
  line=\${line#*"\${COMP_WORDS[0]}"}
  for ((index = 1; index <= COMP_CWORD; index++)); do
    word=\${COMP_WORDS[index]}
    if [[ $line == [[:space:]]* ]]; then
      line=\${line#"\${line%%[![:space:]]*}"}
      words+=("")
    elif ((\${#words[@]} == 0)); then
      words+=("")
    fi
    # The cursor may stand inside the last word.
    if ((index == COMP_CWORD)); then word=$line; fi
    words[\${#words[@]}-1]+=$word
    line=\${line#"$word"}
  done
  current=\${words[\${#words[@]}-1]}
  local kept=\${current%"\${current##*[:=]}"}
  [[ $COMP_WORDBREAKS == *:* && $COMP_WORDBREAKS == *=* ]] || kept=
  COMPREPLY=()
  while IFS= read -r line_of_answer; do
    case $line_of_answer in
      :files | :directories)
        word=\${current##*[=]}
        [[ $line_of_answer == :files ]] && index=-f || index=-d
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen $index -- "$word")
        ;;
      *)
        word=\${line_of_answer%%$'\\t'*}
        case $word in */ | *=) compopt -o nospace 2>/dev/null ;; esac
        COMPREPLY+=("\${word#"$kept"}")
        ;;
    esac
  done < <("$program" ${COMPLETE_COMMAND} "\${words[@]}" 2>/dev/null)
}
complete -F _postern postern
`;

const ZSH = `#compdef postern
# zsh completion for postern; see "postern completion -help"
_postern() {
  local line value kind=
  local -a values shown open_values open_shown
  for line in "\${(@f)$("\${(Q)words[1]/#\\~\\//$HOME/}" ${COMPLETE_COMMAND} "\${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      '') ;;
      :files | :directories) kind=$line ;;
      *)
        value=\${line%%$'\\t'*}
        case $value in
          */ | *=) open_values+=("$value") open_shown+=("\${line/$'\\t'/  -- }") ;;
          *) values+=("$value") shown+=("\${line/$'\\t'/  -- }") ;;
        esac
        ;;
    esac
  done
  if [[ -n $kind ]]; then
    # A value after = is a path of its own.
    compset -P '*='
    if [[ $kind == :files ]]; then _files; else _files -/; fi
    return
  fi
  compadd -l -d shown -a values
  compadd -S '' -l -d open_shown -a open_values
}
if [[ $funcstack[1] == _postern ]]; then _postern "$@"; else compdef _postern postern; fi
`;

const FISH = `# fish completion for postern; see "postern completion -help"
function __postern_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    # A value after = is a path of its own.
    set -l path (string replace -r '^-[^=]*=' '' -- $current)
    set -l before (string match -r '^-[^=]*=' -- $current)
    for line in ($words[1] ${COMPLETE_COMMAND} $words[2..-1] $current 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path $path | string replace -r '^' -- "$before"
            case :directories
                __fish_complete_directories $path | string replace -r '^' -- "$before"
            case '*'
                echo $line
        end
    end
end
complete -c postern -f -a '(__postern_complete)'
`;

const SCRIPTS: Readonly<Record<Shell, string>> = { bash: BASH, zsh: ZSH, fish: FISH };

export function completionScript(shell: Shell): string {
  return SCRIPTS[shell];
}
