//! Values that users select by name on the command line.

/// A value that users select by name, such as a traffic pattern.
pub trait NamedChoice: Copy + PartialEq + Send + Sync + 'static {
    /// All values. Each entry has the value, its name and a summary of one line.
    const CHOICES: &'static [(Self, &'static str, &'static str)];

    /// Returns the name of the value, as users write it on the command line.
    fn choice_name(self) -> &'static str {
        let choice = Self::CHOICES.iter().find(|(value, ..)| *value == self);
        choice.map_or("", |(_, name, _)| name)
    }

    /// Returns the value with the name `name`, or `None` if no value has this name. Letter case matters.
    fn from_name(name: &str) -> Option<Self> {
        let choice = Self::CHOICES.iter().find(|(_, known, _)| *known == name);
        choice.map(|(value, ..)| *value)
    }
}

/// Defines an enum with variants that users select by name. Each variant has the form `Variant =
/// "name": "summary"`.
macro_rules! named_choices {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $text:literal: $summary:literal,)+
    }) => {
        $(#[$meta])*
        pub enum $name {
            $(#[doc = $summary] $(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// Returns the name of the value on the command line.
            pub fn name(self) -> &'static str {
                $crate::NamedChoice::choice_name(self)
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(name: &str) -> Result<$name, String> {
                $crate::NamedChoice::from_name(name)
                    .ok_or_else(|| format!("'{name}' is none of {}", [$($text),+].join(", ")))
            }
        }

        impl $crate::NamedChoice for $name {
            const CHOICES: &'static [($name, &'static str, &'static str)] =
                &[$(($name::$variant, $text, $summary)),+];
        }
    };
}
pub(crate) use named_choices;
