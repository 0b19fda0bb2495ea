#pragma once

// Internal to the component: checks of the unit of events' times.

#include <filesystem>
#include <optional>
#include <string>

#include "convoy/prepare/events.h"
#include "convoy/prepare/people.h"
#include "convoy/prepare/sessions.h"
#include "convoy/prepare/sessions_order.h"

namespace convoy::prepare {

/// Throws FileError where times are hardly seconds: each event would become a session, and several
/// would not share a window.
void check_unit(const Events& events);

/// Throws FileError where the times of one file begin a hundred times as late as those of another
/// end: they count in other units, and would sort in a wrong order.
void check_units_of_files(const Events& events);

/// Span of the times of the ordered events; nothing without times.
std::optional<TimeSpan> span_of(const Events& events, const SessionOrder& order);

/// Warning where events repeat those of the earlier preparation in `earlier`: they are not later
/// than its last time (in kDecisionsFile), and their users' lists have their items. "" = none.
std::string warn_of_known_events(const Events& events, const SessionOrder& order,
                                 const ColumnIds& items, const People& people,
                                 const std::filesystem::path& earlier);

/// Warning where further events of users with lists in `earlier` are before its last time: they are
/// appended behind later ones. "" = none.
std::string warn_of_early_events(const Events& events, const SessionOrder& order,
                                 const ColumnIds& items, const People& people,
                                 const std::filesystem::path& earlier);

/// Throws FileError where the events begin a hundred times as late as the last time in `earlier`,
/// or end as much before it: they count in other units.
void check_unit_of_earlier(const std::optional<TimeSpan>& times,
                           const std::filesystem::path& earlier);

/// Last time that the earlier preparation in `folder` keeps; nothing where it keeps none.
std::optional<double> last_time_in(const std::filesystem::path& folder);

}  // namespace convoy::prepare
