# HAMi's chart into $chart with $helm, checked against its sum; $work is a folder for what lies in between.
helm={{ helm | quote }}
chart={{ chart_file | quote }}
repository={{ repository | quote }}
if [ ! -f "$chart" ]; then
    got="$work/hami-{{ chart_version }}.tgz"
{% if chart_sent %}
    repository={{ chart_sent | quote }}
    cp "$repository" "$got"
{% else %}
    (
        # Nothing cached from an earlier index; neither index nor archive may be large or take for ever.
        export HELM_CACHE_HOME="$work/c" HELM_CONFIG_HOME="$work/c" HELM_DATA_HOME="$work/c"
        ulimit -f 131072
        timeout {{ limit }} "$helm" pull {{ chart_words | map("quote") | join(" ") }} --version {{ chart_version | quote }} \
            --destination "$work"
    ) || {
        echo "chart {{ chart_version }} could not be fetched from $repository (helm's reason is above)."
        echo "Check the route to it, or set hami_chart_repository to a mirror; a slow line needs a higher hami_ready_timeout."
        exit 1
    }
{% endif %}
    found=$(sha256sum <"$got" | cut -c 1-64)
    if [ "$found" != {{ chart_sha256 | quote }} ]; then
        echo "sha256 of chart hami {{ chart_version }} from $repository is $found,"
        echo "expected {{ chart_sha256 }}: refused. (Of {{ judge }}.) The chart was published again or changed on the way;"
        echo "set hami_chart_sha256 after you have checked which."
        exit 1
    fi
    mkdir -p "$(dirname "$chart")"
    cp "$got" "$chart.new"
    mv -f "$chart.new" "$chart"
fi
