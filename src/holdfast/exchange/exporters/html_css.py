"""How an exported page looks: one style sheet, light and dark, from a phone to a desktop.

The page names its hash in its content security policy, so that no other style applies.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

STYLE = """
:root{color-scheme:light dark;--page:#fbfbfa;--card:#fff;--ink:#1d1f21;--soft:#61666b;
--line:#e1e3e5;--code:#f3f4f5;--user:#2457a6;--assistant:#2b6b47;--bad:#ab2f26;--link:#1c5db8;--word:#8a2f8f;
--string:#27703a;--number:#9a5200;--name:#1c5db8}
@media (prefers-color-scheme:dark){:root{--page:#151719;--card:#1d2023;--ink:#e3e5e7;--soft:#9aa1a8;
--line:#33383d;--code:#262a2e;--user:#86b1f0;--assistant:#83c79d;--bad:#f08d83;--link:#86b1f0;
--word:#d9a0dd;--string:#9bd0a5;--number:#e5b070;--name:#86b1f0}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);
font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main,.top,.foot{max-width:52rem;margin:0 auto;padding:0 1rem}
.top{padding-top:1.5rem}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 .75rem;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem .9rem;margin:0 0 1.25rem;
font-size:.9rem}
dt{color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere}
article{background:var(--card);border:1px solid var(--line);border-left:4px solid var(--line);
border-radius:.5rem;padding:.7rem 1rem;margin:0 0 .8rem}
.user{border-left-color:var(--user)}
.assistant{border-left-color:var(--assistant)}
.tool,.system,.condensed{background:none;padding-top:.45rem;padding-bottom:.45rem}
article>header{display:flex;flex-wrap:wrap;gap:.1rem .8rem;align-items:baseline;color:var(--soft);
font-size:.82rem}
h2{font-size:.95rem;margin:0;color:var(--ink)}
.user h2{color:var(--user)}
.assistant h2{color:var(--assistant)}
header a{color:inherit;text-decoration:none;margin-left:auto}
.said,.plain{overflow-wrap:anywhere}
.plain{white-space:pre-wrap}
.said>:first-child{margin-top:.4rem}
.said>:last-child{margin-bottom:.2rem}
h3,h4,h5,h6{line-height:1.3;margin:1.1rem 0 .4rem;font-size:1.05rem}
a{color:var(--link)}
p,ul,ol,blockquote,table,pre{margin:.6rem 0}
ul,ol{padding-left:1.5rem}
blockquote{border-left:3px solid var(--line);padding-left:.8rem;margin-left:0;color:var(--soft)}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;
font-size:.86em}
code{background:var(--code);border-radius:.25rem;padding:.1em .3em}
pre{background:var(--code);border-radius:.4rem;padding:.7rem .8rem;overflow:auto;max-height:34rem;
line-height:1.45;tab-size:4}
pre code{background:none;padding:0;font-size:1em}
.wide{overflow-x:auto;overflow-wrap:normal}
table{border-collapse:collapse;font-size:.93em}
th,td{border:1px solid var(--line);padding:.3rem .6rem;text-align:left}
.center{text-align:center}
.right{text-align:right}
hr{border:0;border-top:1px solid var(--line)}
img{max-width:100%;height:auto;border-radius:.4rem}
details{margin:.4rem 0}
summary{cursor:pointer;color:var(--soft);overflow-wrap:anywhere;font-size:.92rem;padding:.15rem 0}
summary b{color:var(--ink);font-weight:600}
summary code{color:var(--ink)}
.bad b,.bad .outcome{color:var(--bad)}
.note{color:var(--soft);font-style:italic}
.foot{color:var(--soft);font-size:.82rem;padding-bottom:2.5rem}
[class^=c-k],[class^=c-o]{color:var(--word)}
[class^=c-s]{color:var(--string)}
[class^=c-m]{color:var(--number)}
[class^=c-c]{color:var(--soft)}
.c-nf,.c-nc,.c-nt,.c-na{color:var(--name)}
.c-gi{color:var(--string)}
.c-gd{color:var(--bad)}
@media (max-width:36rem){main,.top,.foot{padding-left:.6rem;padding-right:.6rem}
article{padding-left:.75rem;padding-right:.75rem}pre{max-height:22rem}}
@media print{body{background:none}article{break-inside:avoid}pre{max-height:none;
white-space:pre-wrap}}
""".replace("\n", "")

POLICY = (
    "default-src 'none'; img-src data:; "
    f"style-src 'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'"
)
"""What the page may load: its own style, and images that are inside it. No script, no network."""
