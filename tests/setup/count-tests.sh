#!/bin/bash
# count-tests.sh LOG: counts the tests in the saved output of `cargo test` by level.
#
# cargo names each test binary before it runs; the prefix of the file name is the level. A binary that ends
# without a result line (it crashed) counts as one failure. Of each test that failed the first lines of its report come
# before the table: who sees nothing but the end of a long log sees why.
set -euo pipefail

awk '
    BEGIN { order = split("unit api switch cluster kernel other", levels, " "); most = 3 }

    function close_binary() {
        if (current != "") { failed[level]++; crashed[++crashes] = current }
        current = ""
    }
    function level_of(file,    name, i) {
        name = file
        sub(/\/main\.rs$/, "", name) # a test in a folder of its own is named by the folder
        sub(/.*\//, "", name)
        for (i = 2; i < order; i++) if (index(name, levels[i] "_") == 1) return levels[i]
        return (file ~ /(^|\/)tests\// && name !~ /^unit_/) ? "other" : "unit"
    }

    { gsub(/\033\[[0-9;]*m/, ""); sub(/\r$/, "") }
    /^ *Running (unittests )?[^ ]+\.rs \(/ {
        close_binary()
        current = ($2 == "unittests") ? $3 : $2
        level = ($2 == "unittests") ? "unit" : level_of(current)
    }
    /^ *Doc-tests / { close_binary(); current = "doc tests of " $2; level = "unit" }
    # "---- name ----" or "---- name stdout ----", and the report until the next of them or the list of names.
    /^---- .* ----$/ {
        sub(/^---- /, ""); sub(/( stdout)? ----$/, "")
        reports[++failures] = $0; lines = 0; reporting = 1; next
    }
    /^failures:$/ || /^test result: / { reporting = 0 }
    reporting && NF && lines < most { reports[failures] = reports[failures] "\n    " substr($0, 1, 300); lines++ }
    /^test result: / && current != "" {
        for (i = 1; i < NF; i++) {
            if ($(i + 1) ~ /^passed;/) passed[level] += $i
            if ($(i + 1) ~ /^failed;/) failed[level] += $i
            if ($(i + 1) ~ /^ignored;/) skipped[level] += $i
        }
        current = ""
    }

    END {
        close_binary()
        for (i = 1; i <= failures; i++) printf "failed: %s\n", reports[i]
        printf "%-8s %7s %7s %7s\n", "level", "passed", "failed", "skipped"
        for (i = 1; i <= order; i++) {
            l = levels[i]
            if (l == "other" && !(passed[l] + failed[l] + skipped[l])) continue
            printf "%-8s %7d %7d %7d\n", l, passed[l], failed[l], skipped[l]
            p += passed[l]; f += failed[l]; s += skipped[l]
        }
        for (i = 1; i <= crashes; i++) printf "no result (counted as failed): %s\n", crashed[i]
        printf "%d passed, %d failed, %d skipped\n", p, f, s
    }
' "$1"
