//! The page for people: three files, sent as they are, with nothing fetched from anywhere else.

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Where it is.
    pub path: &'static str,
    /// What it is.
    pub content_type: &'static str,
    /// What is in it.
    pub text: &'static str,
}

/// All of them.
pub const FILES: &[File] = &[
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        text: include_str!("../dashboard/index.html"),
    },
    File {
        path: "/dashboard.css",
        content_type: "text/css; charset=utf-8",
        text: include_str!("../dashboard/dashboard.css"),
    },
    File {
        path: "/dashboard.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("../dashboard/dashboard.js"),
    },
    File {
        path: "/charts.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("../dashboard/charts.js"),
    },
    File {
        path: "/connections.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("../dashboard/connections.js"),
    },
    File {
        path: "/keys.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("../dashboard/keys.js"),
    },
    File {
        path: "/latency.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("../dashboard/latency.js"),
    },
    File {
        path: "/page.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("../dashboard/page.js"),
    },
    File {
        path: "/segments.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("../dashboard/segments.js"),
    },
];

#[cfg(test)]
mod tests {
    use super::FILES;

    #[test]
    fn the_page_names_its_files_and_nothing_elsewhere() {
        let page = FILES[0].text;
        for file in &FILES[1..] {
            let name = file.path.trim_start_matches('/');
            let quotes = [format!("\"{name}\""), format!("\"./{name}\"")];
            let is_named = FILES
                .iter()
                .any(|other| quotes.iter().any(|quote| other.text.contains(quote)));
            assert!(is_named, "nothing asks for {name}");
        }
        for file in FILES {
            let names_other = ["http://", "https://", "url("]
                .iter()
                .any(|mark| file.text.contains(mark));
            assert!(!names_other, "{}: names another server", file.path);
        }
        for inline in ["<style", "style=", "onclick", "javascript:"] {
            assert!(!page.contains(inline), "the policy forbids {inline}");
        }
    }
}
